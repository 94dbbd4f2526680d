"""Request bodies, read within limits of size and time."""

from __future__ import annotations

import asyncio

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
    too_large = RestError(
        f"expected a body of at most {limit} bytes", "RESOURCE_EXHAUSTED", status=413
    )
    if length is not None and length.isascii() and length.isdecimal() and int(length) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                body += message.get("body", b"")
                if len(body) > limit:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise RestError(
            "the body did not come in time", "DEADLINE_EXCEEDED", 408, {"Connection": "close"}
        ) from None


async def disconnection(receive: Receive) -> None:
    """Wait until the client disconnects; the body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
