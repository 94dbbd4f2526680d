"""Request bodies, read within limits of size and time."""

from __future__ import annotations

import asyncio
import zlib

from starlette.types import Receive

from keras_transformer.server.errors import Disconnected, RestError


async def read_body(length: str | None, receive: Receive, limit: int, deadline: float) -> bytes:
    """Return the whole body.

    Args:
        length: The header Content-Length, if present.
        receive: ASGI's receive.
        limit: Greatest number of bytes.
        deadline: Latest end, on the event loop's clock.

    Raises:
        RestError: The body is too large or too slow.
        Disconnected: The client disconnected.
    """
    if length is not None and length.isascii() and length.isdecimal():
        announced = length.lstrip("0")[:30] or "0"  # Python does not convert thousands of digits
        if int(announced) > limit:
            raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise RestError(
            "the body did not come in time", "DEADLINE_EXCEEDED", 408, {"Connection": "close"}
        ) from None


def gunzip(body: bytes, limit: int) -> bytes:
    """Decompress a body in gzip.

    Args:
        body: The body as sent.
        limit: Greatest number of bytes after expansion.

    Raises:
        RestError: The body is not one whole gzip member, or is too large after expansion.
    """
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: a gzip header and trailer
    try:
        content = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise RestError(f"Content-Encoding: expected a gzip body, got {error}") from None
    if len(content) > limit:
        raise _too_large(limit, " after expansion")
    if not unpacker.eof:
        raise RestError("Content-Encoding: the gzip body ends too early")
    if unpacker.unused_data:
        raise RestError("Content-Encoding: expected nothing behind the gzip body")
    return content


def _too_large(limit: int, when: str = "") -> RestError:
    """Return the error for a body over the limit."""
    message = f"expected a body of at most {limit} bytes{when} (serve --max_body_mb)"
    return RestError(message, "RESOURCE_EXHAUSTED", status=413)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects; the body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
