"""ASGI application and process of the server: REST interface, metrics, page."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import math
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, cast

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keras_transformer.server.batching import Batcher
from keras_transformer.server.errors import RestError
from keras_transformer.server.metrics import Metrics
from keras_transformer.server.protocol import bounded_protocol
from keras_transformer.server.rest import Rest, error_reply, raw_path
from keras_transformer.server.servable import Servable, load
from keras_transformer.server.settings import ServeError, Settings
from keras_transformer.server.versions import Versions

log = logging.getLogger("keras_transformer.serve")

PAGE = Path(__file__).parent / "page"
SERVER = "keras_transformer-serve (stand-in for TF Serving)"
HEADERS = {
    "Server": SERVER,
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
}


class Server(Protocol):
    """The local server or the gateway, as ``serve`` runs it."""

    settings: Settings

    @property
    def idle(self) -> bool:
        """Return whether no thread works for a request."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Prepare, and work in the background until the block ends."""

    def app(self) -> ASGIApp:
        """Return the ASGI application."""

    def log_addresses(self, url: str) -> None:
        """Log the addresses of the started server."""


class Service:
    """The components of the local server.

    Args:
        folder: Folder of the model's versions.
        settings: Limits, and the model's name.
        labels: Version numbers by label.
        loader: Loads a version folder.
        log_requests: Whether to log every request.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        labels: dict[str, int] | None = None,
        loader: Callable[[Path], Servable] = load,
        log_requests: bool = False,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(settings.name)
        self.versions = Versions(folder, settings, labels or {}, self.metrics, loader)
        self.batcher = Batcher(settings, self.metrics)
        self.rest = Rest(settings, self.versions, self.batcher, self.metrics)
        self.log_requests = log_requests

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load the model, and poll its folder until the block ends.

        Raises:
            ServeError: No version can be served.
        """
        await self.versions.start()
        watcher = asyncio.create_task(self.versions.watch())
        try:
            yield
        finally:
            watcher.cancel()
            self.versions.close()
            self.batcher.close()

    @property
    def idle(self) -> bool:
        """Return whether no batch runs."""
        return self.batcher.running == 0

    def log_addresses(self, url: str) -> None:
        """Log the addresses of model and page."""
        log.info("serving %s/v1/models/%s", url, self.settings.name)
        log.info("page: %s/ (Ctrl-C ends the server)", url)

    def app(self) -> Starlette:
        """Return the ASGI application; its lifespan is ``running``."""

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with self.running():
                yield

        return Starlette(
            routes=[
                Route("/v1", self.rest),
                Route("/v1/{rest:path}", self.rest),
                Route("/monitoring/prometheus/metrics", self._metrics_reply),
                Route("/page/model.json", self._describe_model),
                Mount("/page", StaticFiles(directory=PAGE, check_dir=False)),
                Route("/", self._page_reply),
            ],
            middleware=[Middleware(_ReplyMiddleware, service=self)],
            exception_handlers={HTTPException: _http_error, 500: _internal_error},
            lifespan=lifespan,
        )

    async def _page_reply(self, _: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def _metrics_reply(self, _: Request) -> Response:
        return Response(self.metrics.render(), media_type=self.metrics.content_type)

    async def _describe_model(self, _: Request) -> Response:
        """Return the facts about the model that the page needs."""
        version = self.versions.current
        if version is None:
            raise HTTPException(503, "no version is loaded")
        with version.use() as servable:
            card = servable.card
        model: dict[str, Any] = {"name": self.settings.name, "version": version.number}
        if card:
            model["languages"] = card.get("languages", {})
            model["search"] = card.get("search", {})
        model["signatures"] = sorted(servable.signatures)
        model["limits"] = {
            "max_queue": self.settings.max_queue,
            "max_body_bytes": self.settings.max_body_bytes,
            "timeout_s": self.settings.timeout_s,
        }
        return Response(json.dumps(model, ensure_ascii=False), media_type="application/json")


class _ReplyMiddleware:
    """Middleware that adds headers to every reply, counts it and logs it."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 499  # stays if the client disconnects before the reply

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception:
            status = 500
            raise
        finally:
            self.service.metrics.replies.labels(str(status)).inc()
            if self.service.log_requests:
                log_request(scope, status, started)


def log_request(scope: Scope, status: int, started: float) -> None:
    """Log method, path, status and time of a request; the query and the body may be secret.

    Args:
        scope: The request.
        status: Status of the reply.
        started: Time of the request, by `time.perf_counter`.
    """
    milliseconds = (time.perf_counter() - started) * 1000
    log.info("%s %s %d %.1f ms", scope["method"], raw_path(scope), status, milliseconds)


async def _http_error(request: Request, error: Exception) -> Response:
    """Return an error outside /v1 in the same form as one inside."""
    http = cast(HTTPException, error)
    message = f"{request.method[:20]} {request.url.path[:200]}: {http.detail}"
    return error_reply(RestError(message, "UNKNOWN", http.status_code, dict(http.headers or {})))


async def _internal_error(_: Request, error: Exception) -> Response:
    return error_reply(RestError(f"the server failed: {type(error).__name__}", "INTERNAL"))


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket; it does not accept connections yet.

    Raises:
        ServeError: The address is in use, or does not belong to this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio switches off Nagle's algorithm, which delays replies by 40 ms, only for sockets
        # with a protocol number.
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise ServeError(f"cannot listen on {host}, port {port}: {error.strerror}") from None
    return bound


def uvicorn_config(service: Server) -> uvicorn.Config:
    """Return the configuration of the HTTP server."""
    settings = service.settings
    return uvicorn.Config(
        service.app(),
        http=bounded_protocol(settings.timeout_s),
        ws="none",
        lifespan="off",  # `serve` enters `running`, so that its errors reach the user
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=not settings.upstream,  # the upstream sends its own
        timeout_keep_alive=math.ceil(settings.timeout_s),
        limit_concurrency=settings.max_connections,
        timeout_graceful_shutdown=math.ceil(settings.grace_s),
    )


async def serve(service: Server, bound: socket.socket) -> bool:
    """Load the model and serve until SIGTERM or SIGINT, then finish the accepted requests.

    Args:
        service: The local server or the gateway.
        bound: Socket from ``listen``.

    Returns:
        Whether all accepted requests were finished within ``grace_s``.

    Raises:
        ServeError: No version can be served.
    """
    config = uvicorn_config(service)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    # The objects loaded so far are never freed. Garbage collection would visit them all and pause
    # every request for a good part of a second.
    gc.collect()
    gc.freeze()
    async with service.running():
        # uvicorn raises the signal again after its shutdown; that must not end the process.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        host, port = bound.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        try:
            bound.listen(config.backlog)
        except OSError as error:  # two servers may start at once
            raise ServeError(f"cannot listen on {host}, port {port}: {error.strerror}") from None
        service.log_addresses(f"http://{shown}:{port}")
        await uvicorn.Server(config).serve(sockets=[bound])
        finished = service.idle
    log.info("stopped" if finished else "stopped; unfinished requests are lost")
    return finished
