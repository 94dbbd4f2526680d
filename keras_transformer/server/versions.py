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

from keras_transformer.server.errors import RestError
from keras_transformer.server.metrics import Metrics
from keras_transformer.server.servable import Servable, explain, load
from keras_transformer.server.settings import Policy, ServeError, Settings, find_versions

log = logging.getLogger("keras_transformer.serve")

_REMEMBERED = 10


# Name, size and time of each file in a folder.
Files = frozenset[tuple[str, int, int]]


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
        tried: Its files when it was last loaded, by which a change of them shows.
    """

    number: int
    folder: Path
    state: State = State.LOADING
    code: str = "OK"
    message: str = ""
    tried: Files = frozenset()
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
        self._ignored: set[str] = set()

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
        """Load what is there now; what cannot be loaded does no harm where another can.

        Raises:
            ServeError: None of the wanted versions is there, or none can be loaded.
        """
        await self.poll()
        current = self.current
        if current is None:
            reasons = [f"version {item.number}: {item.message}" for item in self._known.values()]
            found = ", ".join(map(str, sorted(find_versions(self.folder)[0])))
            raise ServeError(
                f"{self.folder}: no version of the model can be served\n" + "\n".join(reasons)
                if reasons
                else f"{self.folder}: none of the wanted versions is there, only {found}"
            )
        for item in self.status():
            if item.failed:
                log.warning("version %d is not served; %d answers", item.number, current.number)

    async def watch(self) -> None:
        """Follow the folder until cancelled."""
        while True:
            await asyncio.sleep(self._poll_s)
            await self.poll()

    async def poll(self) -> None:
        """Look once: load what is new, retire what is no longer wanted."""
        loop = asyncio.get_running_loop()
        try:
            found, ignored = await loop.run_in_executor(self._thread, find_versions, self.folder)
            self._complain("" if found else f"{self.folder}: there is no version any more")
        except OSError as error:
            found, ignored = {}, {}
            self._complain(f"{self.folder}: {error.strerror}")
        for name in sorted(ignored.keys() - self._ignored):
            log.warning("%s is ignored: %s", self.folder / name, ignored[name])
        self._ignored = set(ignored)
        for number in [number for number, item in self._known.items() if item.failed]:
            if number not in found:
                del self._known[number]
        wanted = []
        for number in self._policy.choose(list(found)):
            wanted.append(number)
            await self._bring(number, found[number])
            if self._policy.newest and not self._known[number].failed:
                break
        self._retire(wanted)
        self._forget()

    async def _bring(self, number: int, folder: Path) -> None:
        """Load a version, unless it is loaded or is still what could not be loaded before."""
        version = self._known.setdefault(number, Version(number, folder))
        if version.state not in (State.LOADING, State.END):
            return
        files = await asyncio.get_running_loop().run_in_executor(self._thread, _files, folder)
        if not version.failed or version.tried != files:
            version.folder, version.tried = folder, files
            await self._load(version)

    def _complain(self, message: str) -> None:
        """Say a thing once, and nothing while it stays so."""
        if message and message != self._complaint:
            log.warning("%s; what is loaded stays", message)
        self._complaint = message

    async def _load(self, version: Version) -> None:
        version.state = State.LOADING
        log.info("loading version %d of %s", version.number, self.name)
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            version.come(await loop.run_in_executor(self._thread, self._loader, version.folder))
        except Exception as error:
            reason = explain(error)
            version.state, version.code, version.message = State.END, reason.code, str(reason)
            log.error(
                "version %d cannot be loaded, and is tried again when its files change: %s",
                version.number,
                reason,
            )
        else:
            log.info("version %d loaded in %.1f s", version.number, time.monotonic() - started)
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
        ended = [
            number
            for number, item in self._known.items()
            if item.state is State.END and not item.failed
        ]
        for number in sorted(ended)[:-_REMEMBERED]:
            del self._known[number]

    def close(self) -> None:
        """Load nothing any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _files(folder: Path) -> Files:
    """What is in a folder, as far as it can be seen without reading it."""
    found = set()
    with contextlib.suppress(OSError):  # something went meanwhile; it shows the next time
        for path in folder.rglob("*"):
            seen = path.stat()
            found.add((str(path), seen.st_size, seen.st_mtime_ns))
    return frozenset(found)
