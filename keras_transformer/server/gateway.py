"""Gateway: checks requests, and passes them on to a TensorFlow Serving."""

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

from keras_transformer.server.app import HEADERS
from keras_transformer.server.body import disconnection, read_body
from keras_transformer.server.errors import Disconnected, RestError
from keras_transformer.server.request_check import check_depth, check_request, decompress
from keras_transformer.server.rest import error_reply, parse_path
from keras_transformer.server.servable import Servable
from keras_transformer.server.settings import Address, ServeError, Settings
from keras_transformer.server.upstream import Headers, Outgoing, Reply, Upstream
from keras_transformer.server.upstream_signatures import UpstreamSignatures

log = logging.getLogger("keras_transformer.serve")

Part = Reply | bytes | RestError | None
"""Head of a reply, bytes of its body, an error, or None for its end."""
Parts = asyncio.Queue[Part]

# Headers of one connection (RFC 9110, section 7.6.1), and those that the gateway sets itself.
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
_REPLACED = frozenset([b"host", b"content-length", b"expect"])
# Bytes of a body above which a thread checks it.
_LARGE = 65536
# Parts of a reply that are read ahead of a slow client.
_READ_AHEAD = 64


class Gateway:
    """The gateway as an ASGI application.

    Every POST is checked; a predict request is checked against the signature that the upstream
    reports. A request that fits is passed on, and the reply comes back unchanged.

    Args:
        settings: ``upstream`` and the limits.
        log_requests: Whether to log every request.
    """

    idle = True  # no thread works for a request: the model is elsewhere

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

    def greet(self, url: str) -> None:
        """Log both addresses."""
        log.info("serving %s as a gateway to %s", url, self.upstream.address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply to one request."""
        started = time.perf_counter()
        status = 499  # stays if the client disconnects before the reply

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            outgoing = await self._checked(scope, receive)
            await self._exchange(outgoing, receive, noting)
        except Disconnected:
            pass
        except RestError as error:
            await _error(error)(scope, receive, noting)
        except Exception as error:
            log.exception("a request cannot be checked")
            if status == 499:
                failure = RestError(f"the gateway failed: {type(error).__name__}", "INTERNAL")
                await _error(failure)(scope, receive, noting)
        finally:
            if self.log_requests:
                path = scope.get("raw_path", b"").decode("latin-1")
                milliseconds = (time.perf_counter() - started) * 1000
                log.info("%s %s %d %.1f ms", scope["method"], path, status, milliseconds)

    async def _checked(self, scope: Scope, receive: Receive) -> Outgoing:
        """Read and check a request.

        Only POST has a body for TensorFlow Serving; other bodies are not passed on. A POST to a
        path that the interface does not have is refused, and so is a target that is no path:
        another parser might read it as a predict request.
        """
        method = scope["method"]
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        if not path.startswith("/") or path.startswith("//"):
            raise RestError(f"expected a path such as /v1/models/NAME, got {path[:200]}")
        target = path.encode("latin-1")
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        headers = forwarded(scope["headers"], _REPLACED)
        if method != "POST":
            return Outgoing(method, target, headers)
        action = parse_path(method, path)
        deadline = asyncio.get_running_loop().time() + self.settings.timeout_s
        http = HttpRequest(scope).headers
        limit = int(self.settings.max_body_mb * 2**20)
        body = await read_body(http.get("content-length"), receive, limit, deadline)
        # The upstream gets the bytes that are checked, so no second decoder may differ.
        body = decompress(body, ", ".join(http.getlist("content-encoding")), limit)
        headers = [(name, value) for name, value in headers if name != b"content-encoding"]
        check_depth(body)
        if action.verb == "predict":
            await self._check_predict(path.rpartition(":")[0], body)
        return Outgoing(method, target, headers, body)

    async def _check_predict(self, path: str, body: bytes) -> None:
        """Check a predict request; a new version may have other signatures than the last one."""
        servable = await self.signatures.get(path)
        try:
            await self._check(body, servable)
        except RestError:
            newer = await self.signatures.reread(path)
            if newer is servable:
                raise
            await self._check(body, newer)

    async def _check(self, body: bytes, servable: Servable) -> None:
        arguments = (body, servable.signature, self.settings.max_text_kb * 1024)
        if len(body) > _LARGE:
            await asyncio.to_thread(check_request, *arguments)
        else:
            check_request(*arguments)

    async def _exchange(self, outgoing: Outgoing, receive: Receive, send: Send) -> None:
        """Send a request to the upstream, and its reply to the client.

        The reply is read ahead, so that a slow client does not keep a connection to the upstream.
        """
        parts: Parts = asyncio.Queue(_READ_AHEAD)
        reader = asyncio.create_task(self._read(outgoing, parts))
        gone = asyncio.create_task(disconnection(receive))
        started = False
        try:
            head = await _next(parts, gone)
            if isinstance(head, RestError):
                raise head
            if isinstance(head, Reply):
                started = True
                await send(_start(head))
            while True:
                part = await _next(parts, gone)
                if isinstance(part, RestError):
                    # Too late for a status: the client sees a reply that breaks off.
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
            gone.cancel()
            reader.cancel()

    async def _read(self, outgoing: Outgoing, parts: Parts) -> None:
        """Put the head of the reply, the parts of its body, and an end into a queue."""
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
            await parts.put(RestError(f"the gateway failed: {type(error).__name__}", "INTERNAL"))


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


def forwarded(headers: Headers, without: frozenset[bytes] = frozenset()) -> Headers:
    """Return the headers that a proxy passes on.

    Args:
        headers: Names in lower case.
        without: More headers to leave out.
    """
    named = b",".join(value for name, value in headers if name == b"connection")
    dropped = _HOP_BY_HOP | without | {name.strip().lower() for name in named.split(b",")}
    return [(name, value) for name, value in headers if name not in dropped]


def _error(error: RestError) -> Response:
    """Return a reply of the gateway itself."""
    reply = error_reply(error)
    reply.headers.update(HEADERS | {"Date": email.utils.formatdate(usegmt=True)})
    return reply


def _start(reply: Reply) -> Message:
    headers = forwarded(reply.headers)
    return {"type": "http.response.start", "status": reply.status, "headers": headers}


async def _next(parts: Parts, gone: asyncio.Task[None]) -> Part:
    """Wait for a part of the reply.

    Raises:
        Disconnected: The client disconnected before.
    """
    if not parts.empty():
        return parts.get_nowait()
    task = asyncio.ensure_future(parts.get())
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Disconnected
        return task.result()
    finally:
        task.cancel()
