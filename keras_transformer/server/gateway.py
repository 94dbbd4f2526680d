"""Gateway that checks requests before it passes them on to TensorFlow Serving."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import logging
import socket
import time
from collections.abc import AsyncIterator

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keras_transformer.server.app import HEADERS, log_request
from keras_transformer.server.body import read_body, wait_for_disconnect
from keras_transformer.server.errors import Disconnected, RestError
from keras_transformer.server.offload import run_by_size
from keras_transformer.server.request_check import check_depth, check_request, decompress
from keras_transformer.server.rest import error_reply, parse_path, raw_path
from keras_transformer.server.servable import Servable
from keras_transformer.server.settings import Address, ServeError, Settings
from keras_transformer.server.upstream import Headers, Reply, Upstream, UpstreamRequest
from keras_transformer.server.upstream_signatures import UpstreamSignatures

log = logging.getLogger("keras_transformer.serve")

Part = Reply | bytes | RestError | None
"""The head of a reply, a chunk of its body, an error, or None at its end."""
Parts = asyncio.Queue[Part]

# Headers of one connection (RFC 9110, section 7.6.1), and those that the gateway sets itself.
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
_REPLACED = frozenset([b"host", b"content-length", b"expect"])
# Greatest number of parts of a reply that wait for a slow client.
_READ_AHEAD = 64


class Gateway:
    """The gateway as an ASGI application.

    Every POST is checked, and a predict request also against the signature that the upstream
    reports. A request that passes is sent to the upstream, whose reply is returned unchanged.

    Args:
        settings: ``upstream`` and the limits.
        log_requests: Whether to log every request.
    """

    idle = True  # the model runs elsewhere, so no thread has to be waited for at the end

    def __init__(self, settings: Settings, log_requests: bool = False) -> None:
        self.settings = settings
        self.log_requests = log_requests
        self.upstream = Upstream(
            Address.parse(settings.upstream),
            settings.upstream_connections,
            settings.connect_s,
            settings.timeout_s,
        )
        self.signatures = UpstreamSignatures(self.upstream, settings.poll_s, settings.timeout_s)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the upstream's versions until the block ends."""
        watcher = asyncio.create_task(self.signatures.watch())
        try:
            yield
        finally:
            watcher.cancel()
            self.upstream.close()

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        return self

    def log_addresses(self, url: str) -> None:
        """Log both addresses."""
        log.info("serving %s as a gateway to %s", url, self.upstream.address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply to one request."""
        started = time.perf_counter()
        status = 499  # stays if the client disconnects before the reply

        async def send_and_keep_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            outgoing = await self._read_request(scope, receive)
            await self._exchange(outgoing, receive, send_and_keep_status)
        except Disconnected:
            pass
        except RestError as error:
            await _error_response(error)(scope, receive, send_and_keep_status)
        except Exception as error:
            log.exception("a request cannot be checked")
            if status == 499:
                await _error_response(_failure(error))(scope, receive, send_and_keep_status)
        finally:
            if self.log_requests:
                log_request(scope, status, started)

    async def _read_request(self, scope: Scope, receive: Receive) -> UpstreamRequest:
        """Read and check a request.

        TensorFlow Serving reads the body of a POST only, so other bodies are not passed on. A POST
        to a path that the interface does not have is refused, and so is a target that is not a
        path, because another parser might read it as a predict request.
        """
        method, path = scope["method"], raw_path(scope)
        if not path.startswith("/") or path.startswith("//"):
            raise RestError(f"expected a path such as /v1/models/NAME, got {path[:200]}")
        target = path.encode("latin-1")
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        headers = end_to_end(scope["headers"], _REPLACED)
        if method != "POST":
            return UpstreamRequest(method, target, headers)
        action = parse_path(method, path)
        deadline = asyncio.get_running_loop().time() + self.settings.timeout_s
        received = HttpRequest(scope).headers
        limit = self.settings.max_body_bytes
        body = await read_body(received.get("content-length"), receive, limit, deadline)
        # The upstream gets the very bytes that are checked: its decoder might differ from this one.
        body = decompress(body, ", ".join(received.getlist("content-encoding")), limit)
        headers = [(name, value) for name, value in headers if name != b"content-encoding"]
        check_depth(body)
        if action.verb == "predict":
            await self._check_predict(path.rpartition(":")[0], body)
        return UpstreamRequest(method, target, headers, body)

    async def _check_predict(self, path: str, body: bytes) -> None:
        """Check a predict request, again if a new version has other signatures."""
        servable = await self.signatures.get(path)
        try:
            await self._check(body, servable)
        except RestError:
            newer = await self.signatures.reread(path)
            if newer is servable:
                raise
            await self._check(body, newer)

    async def _check(self, body: bytes, servable: Servable) -> None:
        limit = self.settings.max_text_bytes
        await run_by_size(len(body), check_request, body, servable.signature, limit)

    async def _exchange(self, outgoing: UpstreamRequest, receive: Receive, send: Send) -> None:
        """Send a request to the upstream, and its reply to the client.

        The reply is read ahead, so that a slow client does not keep a connection to the upstream.
        """
        parts: Parts = asyncio.Queue(_READ_AHEAD)
        reader = asyncio.create_task(self._read(outgoing, parts))
        disconnected = asyncio.create_task(wait_for_disconnect(receive))
        started = False
        try:
            head = await _next_part(parts, disconnected)
            if isinstance(head, RestError):
                raise head
            if isinstance(head, Reply):
                started = True
                await send(_start_message(head))
            while True:
                part = await _next_part(parts, disconnected)
                if isinstance(part, RestError):
                    # The status is sent already, so the reply just breaks off.
                    log.warning("%s: %s", self.upstream.address, part)
                    return
                body = part if isinstance(part, bytes) else b""
                async with asyncio.timeout(self.settings.timeout_s):
                    await send(
                        {"type": "http.response.body", "body": body, "more_body": bool(body)}
                    )
                if not body:
                    return
        except TimeoutError:
            log.info("a client does not read its reply")
        except asyncio.CancelledError:  # grace_s is over
            if started:
                raise
            raise RestError("the server stopped before the answer", "UNAVAILABLE") from None
        finally:
            disconnected.cancel()
            reader.cancel()

    async def _read(self, outgoing: UpstreamRequest, parts: Parts) -> None:
        """Put the head of a reply, the chunks of its body, and an end or an error into a queue."""
        deadline = asyncio.get_running_loop().time() + self.settings.timeout_s
        try:
            async with self.upstream.request(outgoing, deadline) as reply:
                await parts.put(reply)
                async for chunk in reply.chunks():
                    if chunk:
                        await parts.put(chunk)
            await parts.put(None)
        except RestError as error:
            await parts.put(error)
        except Exception as error:  # without it the client would wait forever
            log.exception("a request cannot be passed on")
            await parts.put(_failure(error))


def refuse_loop(upstream: Address, bound: socket.socket) -> None:
    """Refuse an upstream that is the gateway itself, which would call itself for each request.

    Args:
        upstream: The upstream.
        bound: The socket on which the gateway listens.

    Raises:
        ServeError: Both have one address.
    """
    own_host, own_port = bound.getsockname()[:2]
    if upstream.port != own_port:
        return
    try:
        found = socket.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # it may get its name later
        return
    for family, _, _, _, address in found:
        everywhere = own_host in ("0.0.0.0", "::") and _is_of_this_machine(family, address[0])
        if everywhere or address[0] == own_host:
            raise ServeError(
                f"upstream: {upstream} is the gateway itself; expected the address of TensorFlow "
                "Serving. Give the gateway another --port"
            )


def _is_of_this_machine(family: int, host: str | int) -> bool:
    """Return whether an address belongs to this machine: then a socket can be bound to it."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def end_to_end(headers: Headers, excluded: frozenset[bytes] = frozenset()) -> Headers:
    """Return the headers that a proxy passes on: those that are not of one connection.

    Args:
        headers: Names in lower case.
        excluded: Names of further headers to leave out.
    """
    named = b",".join(value for name, value in headers if name == b"connection")
    dropped = _HOP_BY_HOP | excluded | {name.strip().lower() for name in named.split(b",")}
    return [(name, value) for name, value in headers if name not in dropped]


def _failure(error: Exception) -> RestError:
    """Return the error for the client after a defect of the gateway."""
    return RestError(f"the gateway failed: {type(error).__name__}", "INTERNAL")


def _error_response(error: RestError) -> Response:
    """Return a reply of the gateway itself."""
    reply = error_reply(error)
    reply.headers.update(HEADERS | {"Date": email.utils.formatdate(usegmt=True)})
    return reply


def _start_message(reply: Reply) -> Message:
    headers = end_to_end(reply.headers)
    return {"type": "http.response.start", "status": reply.status, "headers": headers}


async def _next_part(parts: Parts, disconnected: asyncio.Task[None]) -> Part:
    """Wait for the next part of the reply.

    Raises:
        Disconnected: The client disconnected first.
    """
    if not parts.empty():
        return parts.get_nowait()
    task = asyncio.ensure_future(parts.get())
    try:
        await asyncio.wait([task, disconnected], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Disconnected
        return task.result()
    finally:
        task.cancel()
