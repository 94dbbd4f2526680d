"""The versions of a model: found, loaded, switched, retired, without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import gc
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from keras_transformer.serving.server.errors import RestError
from keras_transformer.serving.server.metrics import Metrics
from keras_transformer.serving.server.servable import Servable, explain, load
from keras_transformer.serving.server.settings import Policy, ServeError, Settings, find_versions

log = logging.getLogger("keras_transformer.serve")

_LONGEST_RETRY_S = 60.0
_REMEMBERED = 10


class State(enum.Enum):
    """What a version is at; TF Serving's words."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclass(eq=False)
class Version:
    """A version that is or was on its way.

    Attributes:
        number: Its number.
        folder: Where it lies.
        state: What it is at; END with another code than OK: it could not be loaded.
        code: Name of TensorFlow's error code.
        message: What went wrong.
        failures: How often loading has failed.
        retry_at: When to try again, in seconds of a monotonic clock.
    """

    number: int
    folder: Path
    state: State = State.LOADING
    code: str = "OK"
    message: str = ""
    failures: int = 0
    retry_at: float = 0.0
    _servable: Servable | None = None
    _users: int = 0
    _unused: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def failed(self) -> bool:
        """It could not be loaded."""
        return self.code != "OK"

    def come(self, servable: Servable) -> None:
        """Begin to answer."""
        self._servable, self.state, self.code, self.message = servable, State.AVAILABLE, "OK", ""

    @contextlib.contextmanager
    def use(self) -> Iterator[Servable]:
        """The model, kept in memory meanwhile."""
        if self._servable is None:
            raise RestError(f"version {self.number} is not loaded", "NOT_FOUND")
        self._users += 1
        try:
            yield self._servable
        finally:
            self._users -= 1
            if self._users == 0:
                self._unused.set()

    async def leave(self) -> None:
        """Answer no new request, wait for the last one, free the memory."""
        self.state = State.UNLOADING
        while self._users:
            self._unused.clear()
            await self._unused.wait()
        self._servable = None
        self.state = State.END


class Versions:
    """The versions of the model in a folder.

    Args:
        folder: Where the version folders lie.
        settings: ``versions``, ``poll_s`` and ``name``.
        labels: Version numbers by label.
        metrics: What is told of loading.
        loader: Makes a model of a version folder; runs in a thread.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        labels: dict[str, int],
        metrics: Metrics,
        loader: Callable[[Path], Servable] = load,
    ) -> None:
        self.folder = folder
        self.name = settings.name
        self.labels = labels
        self._policy = Policy.parse(settings.versions)
        self._poll_s = settings.poll_s
        self._metrics = metrics
        self._loader = loader
        self._known: dict[int, Version] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._complaint = ""

    @property
    def current(self) -> Version | None:
        """The version that answers where none is named: the highest that is loaded."""
        loaded = [version for version in self._known.values() if version.state is State.AVAILABLE]
        return max(loaded, key=lambda version: version.number, default=None)

    def get(self, number: int | None = None, label: str | None = None) -> Version:
        """A version to answer a request.

        Raises:
            RestError: There is none of this number or label that is loaded.
        """
        if number is None and label is None:
            found = self.current
        else:
            number = self._number(number, label)
            found = self._known.get(number)
        if found is None or found.state is not State.AVAILABLE:
            which = "any version" if number is None else f"version {number}"
            raise RestError(f"model {self.name}: {which} is not loaded", "NOT_FOUND")
        return found

    def status(self, number: int | None = None, label: str | None = None) -> list[Version]:
        """The versions that are known, highest first, or one of them.

        Raises:
            RestError: There is none of this number or label.
        """
        if number is None and label is None:
            return sorted(self._known.values(), key=lambda version: -version.number)
        number = self._number(number, label)
        if number not in self._known:
            raise RestError(f"model {self.name}: there is no version {number}", "NOT_FOUND")
        return [self._known[number]]

    def _number(self, number: int | None, label: str | None) -> int:
        if label is None:
            return number or 0
        if label not in self.labels:
            raise RestError(f"model {self.name}: there is no label {label!r}")
        return self.labels[label]

    async def start(self) -> None:
        """Load what is there now.

        Raises:
            ServeError: None of the wanted versions is there, or none can be loaded.
        """
        await self.poll()
        if self.current is None:
            reasons = [f"version {item.number}: {item.message}" for item in self._known.values()]
            found = ", ".join(map(str, sorted(find_versions(self.folder))))
            raise ServeError(
                f"{self.folder}: no version of the model can be served\n" + "\n".join(reasons)
                if reasons
                else f"{self.folder}: none of the wanted versions is there, only {found}"
            )

    async def watch(self) -> None:
        """Follow the folder until cancelled."""
        while True:
            await asyncio.sleep(self._poll_s)
            await self.poll()

    async def poll(self) -> None:
        """Look once: load what is new, retire what is no longer wanted."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, find_versions, self.folder)
            self._complain("" if found else f"{self.folder}: there is no version any more")
        except OSError as error:
            found = {}
            self._complain(f"{self.folder}: {error.strerror}")
        for number in [number for number, item in self._known.items() if item.failed]:
            if number not in found:
                del self._known[number]
        wanted = self._policy.choose(list(found))
        for number in wanted:
            version = self._known.get(number)
            if version is None or (version.state is State.END and self._due(version)):
                await self._load(number, found[number])
        self._retire(wanted)
        self._forget()

    def _due(self, version: Version) -> bool:
        return not version.failed or time.monotonic() >= version.retry_at

    def _complain(self, message: str) -> None:
        """Say a thing once, and nothing while it stays so."""
        if message and message != self._complaint:
            log.warning("%s; what is loaded stays", message)
        self._complaint = message

    async def _load(self, number: int, folder: Path) -> None:
        version = self._known.get(number) or Version(number, folder)
        version.folder, version.state = folder, State.LOADING
        self._known[number] = version
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            version.come(await loop.run_in_executor(self._thread, self._loader, folder))
        except Exception as error:
            reason = explain(error)
            version.state, version.code, version.message = State.END, reason.code, str(reason)
            version.failures += 1
            pause = min(_LONGEST_RETRY_S, self._poll_s * 2**version.failures)
            version.retry_at = time.monotonic() + pause
            log.error("version %d cannot be loaded, next try in %.0f s: %s", number, pause, reason)
        else:
            log.info("version %d loaded in %.1f s", number, time.monotonic() - started)
            version.failures = 0
        self._metrics.loads.labels(version.code).inc()
        if self.current is not None:
            self._metrics.version.set(self.current.number)

    def _retire(self, wanted: list[int]) -> None:
        """Let go of versions that are not wanted, once one that is wanted answers."""
        ready = [number for number in wanted if self._known[number].state is State.AVAILABLE]
        for version in self._known.values():
            if ready and version.number not in wanted and version.state is State.AVAILABLE:
                version.state = State.UNLOADING
                task = asyncio.get_running_loop().create_task(self._let_go(version))
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)
        if ready:
            self._metrics.version.set(max(ready))

    async def _let_go(self, version: Version) -> None:
        await version.leave()
        # A model's graphs are full of cycles, which only this search frees.
        await asyncio.get_running_loop().run_in_executor(self._thread, gc.collect)
        log.info("version %d retired", version.number)

    def _forget(self) -> None:
        """Keep only the last few of the retired versions in the status."""
        ended = [number for number, item in self._known.items() if item.state is State.END]
        for number in sorted(ended)[:-_REMEMBERED]:
            del self._known[number]

    def close(self) -> None:
        """Load nothing any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
