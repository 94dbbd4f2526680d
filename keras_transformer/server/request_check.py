"""Checks of a request before a model server sees it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keras_transformer.server.body import expand
from keras_transformer.server.decode import Request, decode
from keras_transformer.server.errors import RestError
from keras_transformer.server.signature import Signature

MAX_DEPTH = 64
"""Deepest nesting of a body; a request of the interface has at most 4 levels and its rank."""

_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))


def check_request(body: bytes, find: Callable[[str], Signature], max_text: int) -> Request:
    """Check a predict request as the local server does; the batch must not be empty either.

    TensorFlow Serving keeps an empty batch in its queue until the time limit, and a wrong shape
    fails all requests of its batch.

    Args:
        body: The body of the HTTP request.
        find: Returns the signature of a name, the default one for "".
        max_text: Greatest number of bytes of a text.

    Raises:
        RestError: The request is refused.
    """
    request = decode(body, find)
    for name, array in request.inputs.items():
        if array.size == 0:
            raise RestError(f"{name}: expected at least one value, got an empty list")
        texts = array.ravel().tolist() if array.dtype == object else []
        longest = max(map(len, texts), default=0)
        if longest > max_text:
            raise RestError(
                f"{name}: expected texts of at most {max_text} bytes, got one of {longest}",
                "RESOURCE_EXHAUSTED",
                413,
            )
    return request


def check_depth(body: bytes) -> None:
    """Refuse deep nesting, which overflows the stack of recursive parsers.

    The count is exact up to the first error of a body, and a parser goes no further.

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
    """Return the body without its content encoding.

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
    return expand(body, "gzip", limit)
