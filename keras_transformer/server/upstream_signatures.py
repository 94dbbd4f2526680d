"""Signatures of the models of a TensorFlow Serving, from its metadata."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_transformer.server.errors import RestError
from keras_transformer.server.servable import Servable
from keras_transformer.server.signature import Shape, Signature, Spec
from keras_transformer.server.upstream import Upstream, UpstreamRequest

log = logging.getLogger("keras_transformer.serve")

# Names of TensorFlow's types; an input of another type cannot be given in JSON.
_DTYPES = {
    "DT_STRING": "string",
    "DT_BOOL": "bool",
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_INT8": "int8",
    "DT_INT16": "int16",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_UINT8": "uint8",
    "DT_UINT32": "uint32",
    "DT_UINT64": "uint64",
}
_MAX_METADATA = 2**24
"""Longest metadata of a model in bytes."""
_MAX_ENTRIES = 64
"""Most models whose signatures are kept."""
_FORGET_S = 60.0
"""Time without a request after which a model is forgotten."""
_REREAD_S = 0.1
"""Shortest time between two reads for requests that are refused."""
_NO_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of a model that runs elsewhere."""


@dataclass
class _Entry:
    """The signatures of a model, with the times of the last read and of the last request.

    Another version keeps the servable if it has the same signatures. So a request that was checked
    against the current servable need not be checked again.
    """

    servable: Servable
    version: str
    read: float
    used: float


class UpstreamSignatures:
    """Signatures of models by path; read at the first request, then again every ``poll_s``.

    Args:
        upstream: The server.
        poll_s: Seconds between two reads of the metadata of a model in use.
        timeout_s: Time limit of a read.
    """

    def __init__(self, upstream: Upstream, poll_s: float, timeout_s: float) -> None:
        self._upstream = upstream
        self._poll_s = poll_s
        self._timeout_s = timeout_s
        self._entries: dict[str, _Entry] = {}
        self._reading: dict[str, asyncio.Task[_Entry]] = {}

    async def get(self, path: str) -> Servable:
        """Return the signatures of a model.

        Args:
            path: Path of the model, as the client sent it: ``/v1/models/NAME``, perhaps with a
                version or label.

        Raises:
            RestError: The server has no such model, or does not answer.
        """
        entry = self._entries.get(path) or await self._read(path)
        entry.used = time.monotonic()
        return entry.servable

    async def reread(self, path: str) -> Servable:
        """Read the signatures again, for a request that does not fit the known ones.

        The known ones are returned if they are new enough, or if the server does not answer.
        """
        entry = self._entries.get(path)
        if entry is not None and time.monotonic() - entry.read < _REREAD_S:
            return entry.servable
        try:
            return (await self._read(path)).servable
        except RestError:
            if entry is None:
                raise
            return entry.servable

    async def watch(self) -> None:
        """Read the signatures of the models in use until cancelled."""
        while True:
            await asyncio.sleep(self._poll_s)
            now = time.monotonic()
            for path, entry in list(self._entries.items()):
                if now - entry.used > _FORGET_S:
                    self._entries.pop(path, None)
                    continue
                try:
                    await self._read(path)
                except RestError as error:
                    if error.status == 404:
                        self._entries.pop(path, None)

    async def _read(self, path: str) -> _Entry:
        """Read the metadata of a model; requests that arrive meanwhile wait for the same read."""
        if path not in self._reading:
            task = asyncio.get_running_loop().create_task(self._fetch(path))
            self._reading[path] = task
            task.add_done_callback(lambda done: self._finish(path, done))
        return await asyncio.shield(self._reading[path])

    def _finish(self, path: str, task: asyncio.Task[_Entry]) -> None:
        self._reading.pop(path, None)
        if not task.cancelled():
            task.exception()  # counts as handled, since no request may be waiting for it any more

    async def _fetch(self, path: str) -> _Entry:
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        outgoing = UpstreamRequest("GET", f"{path}/metadata".encode("latin-1"))
        async with self._upstream.request(outgoing, deadline) as reply:
            body = await reply.read(_MAX_METADATA)
        version, signatures = parse_metadata(reply.status, body)
        entry = self._entries.pop(path, None)
        now = time.monotonic()
        if entry is None or entry.version != version:
            log.info("%s: signatures of version %s read", path, version)
        if entry is None or entry.servable.signatures != signatures:
            entry = _Entry(Servable(signatures, _NO_FUNCTIONS), version, now, now)
        entry.version, entry.read = version, now
        while len(self._entries) >= _MAX_ENTRIES:
            del self._entries[min(self._entries, key=lambda one: self._entries[one].used)]
        self._entries[path] = entry
        return entry


def parse_metadata(status: int, body: bytes) -> tuple[str, dict[str, Signature]]:
    """Parse a reply to ``GET /v1/models/NAME/metadata``.

    Returns:
        The version number, and the signatures by name.

    Raises:
        RestError: The reply is an error, which is passed on, or is not such metadata.
    """
    try:
        document = json.loads(body)
        if status != 200:
            code = {404: "NOT_FOUND", 400: "INVALID_ARGUMENT", 503: "UNAVAILABLE"}
            raise RestError(str(document["error"]), code.get(status, "UNKNOWN"), status)
        definitions = document["metadata"]["signature_def"]["signature_def"]
        found = {name: _signature(name, value) for name, value in definitions.items()}
        return str(document["model_spec"]["version"]), found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RestError(
            f"the model server's metadata has another form (status {status})", "UNKNOWN", 502
        ) from None


def _signature(name: str, definition: dict[str, Any]) -> Signature:
    return Signature(
        name,
        str(definition.get("method_name", "")),
        {key: _spec(value) for key, value in definition.get("inputs", {}).items()},
        {key: _spec(value) for key, value in definition.get("outputs", {}).items()},
    )


def _spec(info: dict[str, Any]) -> Spec:
    dtype = str(info["dtype"])
    tensor = info.get("tensor_shape", {})
    shape: Shape | None = None
    if not tensor.get("unknown_rank", False):
        sizes = [int(dimension["size"]) for dimension in tensor.get("dim", [])]
        shape = tuple(None if size < 0 else size for size in sizes)
    return Spec(_DTYPES.get(dtype, dtype), shape)
