"""TensorFlow Serving's REST interface: paths, predict, status and metadata."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from keras_transformer.server.batching import Batcher
from keras_transformer.server.body import gunzip, read_body, wait_for_disconnect
from keras_transformer.server.decode import decode
from keras_transformer.server.encode import encode
from keras_transformer.server.errors import Disconnected, RestError
from keras_transformer.server.metrics import Metrics
from keras_transformer.server.offload import run_by_size
from keras_transformer.server.request_check import check_texts
from keras_transformer.server.settings import Settings
from keras_transformer.server.signature import Arrays
from keras_transformer.server.versions import Version, Versions

_MODEL = r"(?i:/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICT = re.compile(_MODEL + r":(?P<verb>classify|regress|predict))", re.ASCII)
_STATUS = re.compile(_MODEL + r"(?P<metadata>/metadata)?)", re.ASCII)


@dataclass(frozen=True)
class Target:
    """The model and the action that a path names.

    Attributes:
        name: Name of the model.
        version: Version number, None if not given.
        label: Version label, None if not given.
        verb: ``predict``, ``status``, ``metadata``, ``classify`` or ``regress``.
    """

    name: str
    version: int | None
    label: str | None
    verb: str


def parse_path(method: str, path: str) -> Target:
    """Parse a path under /v1.

    Args:
        method: HTTP method.
        path: Path as sent, with percent-encoding, and with the query if there is one.

    Raises:
        RestError: The interface has no such method and path.
    """
    form = {"POST": _PREDICT, "GET": _STATUS}.get(method)
    found = form.fullmatch(path) if form else None
    if not found:
        raise RestError(
            f"there is no {method[:20]} {path[:200]}; expected GET /v1/models/NAME, "
            ".../versions/N or .../labels/L, each with or without /metadata; or POST to one of "
            "them with :predict; no query"
        )
    parts = found.groupdict()
    version = int(parts["version"][:40]) if parts["version"] else None
    if version is not None and version >= 2**63:
        raise RestError(f"versions: expected a number below 2^63, got {parts['version'][:40]}")
    verb = parts.get("verb") or ("metadata" if parts.get("metadata") else "status")
    label = _unquoted(parts["label"]) if parts["label"] else None
    return Target(_unquoted(parts["name"]), version, label, verb.lower())


def raw_path(scope: Scope) -> str:
    """Return the path of a request as sent, with percent-encoding, a byte for each character."""
    encoded: bytes = scope.get("raw_path", scope["path"].encode())
    return encoded.decode("latin-1")


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")


class Rest:
    """The interface as an ASGI application.

    Args:
        settings: Limits.
        versions: The loaded versions.
        batcher: Runs the requests.
        metrics: Counts the requests.
    """

    def __init__(
        self, settings: Settings, versions: Versions, batcher: Batcher, metrics: Metrics
    ) -> None:
        self.settings = settings
        self.versions = versions
        self.batcher = batcher
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply to one request."""
        path = raw_path(scope)
        if scope.get("query_string"):
            # TensorFlow Serving takes the query for a part of the path.
            path += "?" + scope["query_string"].decode("latin-1")
        try:
            target = parse_path(scope["method"], path)
            if target.name != self.versions.name:
                if target.verb == "predict":
                    self.metrics.count_unknown_model()
                names = f"there is no model {target.name[:100]!r}, only {self.versions.name!r}"
                raise RestError(names, "NOT_FOUND")
            body = await self._reply(target, scope, receive)
        except Disconnected:
            return
        except RestError as error:
            await error_reply(error)(scope, receive, send)
            return
        await Response(body, media_type="application/json")(scope, receive, send)

    async def _reply(self, target: Target, scope: Scope, receive: Receive) -> bytes:
        if target.verb == "predict":
            return await self._predict(target, scope, receive)
        if target.verb in ("classify", "regress"):
            raise RestError(f"no signature is made for {target.verb}; expected predict")
        if target.verb == "metadata":
            return self._metadata(self.versions.get(target.version, target.label))
        # TensorFlow Serving ignores the label here.
        states = [_state(item) for item in self.versions.status(target.version)]
        return _pretty({"model_version_status": states})

    def _metadata(self, version: Version) -> bytes:
        with version.use() as servable:
            definitions = servable.definitions
        spec = {
            "name": self.versions.name,
            "signature_name": "",
            "version": str(version.number),
        }
        # TensorFlow Serving nests its map of signatures in a field of the same name.
        metadata = {"signature_def": {"signature_def": definitions}}
        return _pretty({"model_spec": spec, "metadata": metadata})

    async def _predict(self, target: Target, scope: Scope, receive: Receive) -> bytes:
        """Reply to a predict request, and count it."""
        started = time.perf_counter()
        code = "INTERNAL"
        try:
            limit = self.settings.max_body_bytes
            deadline = asyncio.get_running_loop().time() + self.settings.timeout_s
            headers = HttpRequest(scope).headers
            body = await read_body(headers.get("content-length"), receive, limit, deadline)
            # As in TensorFlow Serving: an encoding that names gzip is undone, others are ignored.
            if "gzip" in headers.get("content-encoding", ""):
                body = await asyncio.to_thread(gunzip, body, limit)
            reply = await self._run(target, body, receive, deadline)
            code = "OK"
            return reply
        except RestError as error:
            code = error.code
            raise
        except Disconnected:
            code = "CANCELLED"
            raise
        finally:
            self.metrics.count_request(code, time.perf_counter() - started)

    async def _run(self, target: Target, body: bytes, receive: Receive, deadline: float) -> bytes:
        with self.versions.get(target.version, target.label).use() as servable:
            request = await run_by_size(len(body), decode, body, servable.signature)
            check_texts(request.inputs, self.settings.max_text_bytes)
            self.metrics.examples.observe(request.rows)
            job = self.batcher.submit(servable, request)
            try:
                outputs = await self._wait(job.outputs, receive, deadline)
            finally:
                self.batcher.drop(job)
        values = sum(array.size for array in outputs.values())
        return await run_by_size(values, encode, outputs, request.layout)

    async def _wait(
        self, outputs: asyncio.Future[Any], receive: Receive, deadline: float
    ) -> Arrays:
        """Wait for the outputs, the client's disconnect or the deadline."""
        gone: asyncio.Future[Any] = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            left = deadline - asyncio.get_running_loop().time()
            await asyncio.wait(
                [outputs, gone], timeout=max(0, left), return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:  # grace_s is over
            raise RestError("the server stopped before the answer", "UNAVAILABLE") from None
        finally:
            gone.cancel()
        if outputs.done():
            return outputs.result()
        if gone.done() and not gone.cancelled():
            raise Disconnected
        raise RestError(f"no answer within {self.settings.timeout_s:g} s", "DEADLINE_EXCEEDED")


def error_reply(error: RestError) -> Response:
    """Return the reply for an error, in TensorFlow Serving's form."""
    body = json.dumps({"error": str(error)}, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body + b"\n", error.status, error.headers, "application/json")


def _state(version: Version) -> dict[str, Any]:
    return {
        "version": str(version.number),
        "state": version.state.value,
        "status": {"error_code": version.code, "error_message": version.message},
    }


def _pretty(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")
