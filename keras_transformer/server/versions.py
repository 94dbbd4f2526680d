"""Versions of a model: discovery, loading, switching and retirement without lost requests."""

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
from keras_transformer.server.servable import Servable, load, to_rest_error
from keras_transformer.server.settings import Policy, ServeError, Settings, find_versions

log = logging.getLogger("keras_transformer.serve")

# Most retired versions that the status lists.
_MAX_RETIRED = 10

Files = frozenset[tuple[str, int, int, int]]
"""Name, inode, size and time of each file in a folder."""


class State(enum.Enum):
    """State of a version, in TensorFlow Serving's terms."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclass(eq=False)
class Version:
    """A version and its state.

    Attributes:
        number: Version number.
        folder: Version folder.
        state: State; END with a code other than OK means that loading failed.
        code: Name of TensorFlow's error code.
        message: Error message of a failed load.
        tried_files: Files at the last attempt to load, to detect changes.
        seen_files: Files at the last poll.
    """

    number: int
    folder: Path
    state: State = State.LOADING
    code: str = "OK"
    message: str = ""
    tried_files: Files = frozenset()
    seen_files: Files = frozenset()
    _servable: Servable | None = None
    _users: int = 0
    _unused: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def failed(self) -> bool:
        """Return whether loading failed."""
        return self.code != "OK"

    def activate(self, servable: Servable) -> None:
        """Make the version available."""
        self._servable, self.state, self.code, self.message = servable, State.AVAILABLE, "OK", ""

    @contextlib.contextmanager
    def use(self) -> Iterator[Servable]:
        """Yield the model and keep it in memory until the block ends."""
        if self._servable is None:
            raise RestError(f"version {self.number} is not loaded", "NOT_FOUND")
        self._users += 1
        try:
            yield self._servable
        finally:
            self._users -= 1
            if self._users == 0:
                self._unused.set()

    async def retire(self) -> None:
        """Accept no new request, wait for the running ones, free the memory."""
        self.state = State.UNLOADING
        while self._users:
            self._unused.clear()
            await self._unused.wait()
        self._servable = None
        self.state = State.END


class Versions:
    """The versions of the model in a folder.

    Args:
        folder: Folder of the versions.
        settings: ``versions``, ``poll_s`` and ``name``.
        labels: Version numbers by label.
        metrics: Metrics of loading.
        loader: Loads a version folder; runs in a thread.
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
        self._last_warning = ""
        self._ignored: set[str] = set()

    @property
    def current(self) -> Version | None:
        """Return the version for requests that name none: the highest loaded one."""
        loaded = [version for version in self._known.values() if version.state is State.AVAILABLE]
        return max(loaded, key=lambda version: version.number, default=None)

    def get(self, number: int | None = None, label: str | None = None) -> Version:
        """Return the version for a request.

        Raises:
            RestError: No version of this number or label is loaded.
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

    def status(self, number: int | None = None) -> list[Version]:
        """Return all known versions, highest first, or one of them.

        Raises:
            RestError: No version of this number is known.
        """
        if number is None:
            return sorted(self._known.values(), key=lambda version: -version.number)
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
        """Load the present versions; one that fails is skipped if another one loads.

        Raises:
            ServeError: None of the selected versions is present, or none loads.
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
                log.warning(
                    "version %d is not served; version %d is used", item.number, current.number
                )

    async def watch(self) -> None:
        """Poll the folder until cancelled."""
        while True:
            await asyncio.sleep(self._poll_s)
            await self.poll()

    async def poll(self) -> None:
        """Load new versions and retire those no longer selected."""
        loop = asyncio.get_running_loop()
        try:
            found, ignored = await loop.run_in_executor(self._thread, find_versions, self.folder)
            self._warn_once("" if found else f"{self.folder}: there is no version any more")
        except OSError as error:
            found, ignored = {}, {}
            self._warn_once(f"{self.folder}: {error.strerror}")
        for name in sorted(ignored.keys() - self._ignored):
            log.warning("%s is ignored: %s", self.folder / name, ignored[name])
        self._ignored = set(ignored)
        for number in [number for number, item in self._known.items() if item.failed]:
            if number not in found:
                del self._known[number]
        wanted = []
        for number in self._policy.choose(list(found)):
            wanted.append(number)
            await self._load_if_changed(number, found[number])
            if self._policy.newest and not self._known[number].failed:
                break
        self._retire(wanted)
        self._drop_ended()

    async def _load_if_changed(self, number: int, folder: Path) -> None:
        """Load a version unless it is loaded, or failed with the same files."""
        version = self._known.setdefault(number, Version(number, folder))
        files = await asyncio.get_running_loop().run_in_executor(self._thread, _files, folder)
        if version.state not in (State.LOADING, State.END):
            self._warn_if_changed(version, files)
        elif not version.failed or version.tried_files != files:
            version.folder, version.tried_files, version.seen_files = folder, files, files
            await self._load(version)

    def _warn_if_changed(self, version: Version, files: Files) -> None:
        """Warn once if the files of a loaded version are no longer those that were loaded."""
        if files not in (version.tried_files, version.seen_files):
            log.warning(
                "version %d: the files in %s have changed; the model loaded before stays in use "
                "(for the new one: give it a new version number, or restart the server)",
                version.number,
                version.folder,
            )
        version.seen_files = files

    def _warn_once(self, message: str) -> None:
        """Log a warning if it differs from the last one."""
        if message and message != self._last_warning:
            log.warning("%s; loaded versions stay", message)
        self._last_warning = message

    async def _load(self, version: Version) -> None:
        version.state = State.LOADING
        log.info("loading version %d of %s", version.number, self.name)
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            version.activate(await loop.run_in_executor(self._thread, self._loader, version.folder))
        except Exception as error:
            reason = to_rest_error(error)
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
        """Retire versions not in ``wanted``, once one of those is available."""
        ready = [number for number in wanted if self._known[number].state is State.AVAILABLE]
        for version in self._known.values():
            if ready and version.number not in wanted and version.state is State.AVAILABLE:
                version.state = State.UNLOADING
                task = asyncio.get_running_loop().create_task(self._finish(version))
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)
        if ready:
            self._metrics.version.set(max(ready))

    async def _finish(self, version: Version) -> None:
        await version.retire()
        # The graphs of a model contain reference cycles, which only the garbage collector frees.
        await asyncio.get_running_loop().run_in_executor(self._thread, gc.collect)
        log.info("version %d retired", version.number)

    def _drop_ended(self) -> None:
        """Keep only the last few retired versions in the status."""
        ended = [
            number
            for number, item in self._known.items()
            if item.state is State.END and not item.failed
        ]
        for number in sorted(ended)[:-_MAX_RETIRED]:
            del self._known[number]

    def close(self) -> None:
        """Load no more versions."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _files(folder: Path) -> Files:
    """Return names, inodes, sizes and times of all files in a folder."""
    found = set()
    with contextlib.suppress(OSError):  # a file was removed meanwhile; the next poll sees it
        for path in folder.rglob("*"):
            status = path.stat()
            found.add((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
    return frozenset(found)
