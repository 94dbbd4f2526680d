"""Checks of a request before a model server sees it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keras_transformer.server.body import gunzip
from keras_transformer.server.decode import PredictRequest, decode
from keras_transformer.server.errors import RestError
from keras_transformer.server.signature import Arrays, Signature

MAX_DEPTH = 64
"""Deepest nesting of a body; a request of the interface has at most 4 levels and its rank."""

_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))


def check_request(body: bytes, find: Callable[[str], Signature], max_text: int) -> PredictRequest:
    """Check a predict request that TensorFlow Serving will run.

    It keeps an empty batch in its queue until the time limit, and a request of a wrong shape fails
    all requests that are batched with it.

    Args:
        body: The body of the HTTP request.
        find: Returns the signature of a name, the default one for "".
        max_text: Greatest number of bytes of a text.

    Raises:
        RestError: The request does not fit its signature, has an empty input or too long a text.
    """
    request = decode(body, find)
    for name, array in request.inputs.items():
        if array.size == 0:
            raise RestError(f"{name}: expected at least one value, got an empty list")
    check_texts(request.inputs, max_text)
    return request


def check_texts(inputs: Arrays, limit: int) -> None:
    """Refuse texts so long that their tokenization would block a thread for seconds.

    Args:
        inputs: Inputs by name.
        limit: Greatest number of bytes of a text.

    Raises:
        RestError: A text is longer.
    """
    for name, array in inputs.items():
        texts = array.ravel().tolist() if array.dtype == object else []
        longest = max(map(len, texts), default=0)
        if longest > limit:
            raise RestError(
                f"{name}: expected texts of at most {limit} bytes, got one of {longest} "
                "(serve --max_text_kb; TF Serving itself has no such limit)",
                "RESOURCE_EXHAUSTED",
                413,
            )


def check_depth(body: bytes) -> None:
    """Refuse deep nesting, which overflows the stack of recursive parsers.

    The count is exact up to the first syntax error of a body, where every parser stops.

    Raises:
        RestError: More than ``MAX_DEPTH`` levels.
    """
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(plain.split(b'"')[::2])  # without the strings
    brackets = np.frombuffer(outside.translate(None, _OTHERS), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    depth = np.cumsum(np.where(opening, 1, -1))
    if depth.size and depth.max() > MAX_DEPTH:
        raise RestError(f"expected at most {MAX_DEPTH} nested lists and objects, got more")


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """Undo the content encoding of a body; unlike the local server, refuse unknown ones.

    Args:
        body: The body as sent.
        encoding: The header Content-Encoding, "" if there is none.
        limit: Greatest size after decompression.

    Raises:
        RestError: Another encoding than gzip, damaged data, or too much of it.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise RestError(
            f"Content-Encoding: expected gzip or none, got {encoding[:40]!r}", status=415
        )
    return gunzip(body, limit)
