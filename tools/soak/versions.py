"""Version folders of the endurance test: new ones, old ones deleted, damaged ones in between."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_transformer.system import partial_folder
from tools.soak.answers import Answers, Timeline

DAMAGES = ("short graph", "empty graph", "short weights", "no weights", "no index")
LOADING = 180.0
"""Longest time in seconds in which a server has to load a version."""


def damage(folder: Path, kind: str, rng: random.Random) -> None:
    """Damage a version so that no server can load it.

    Args:
        folder: The version folder.
        kind: One of ``DAMAGES``.
        rng: Source of the length that remains.
    """
    graph = folder / "saved_model.pb"
    index = folder / "variables" / "variables.index"
    weights = next((folder / "variables").glob("variables.data-*"))
    if kind == "short graph":
        _cut(graph, rng.uniform(0.1, 0.9))
    elif kind == "empty graph":
        _cut(graph, 0.0)
    elif kind == "short weights":
        _cut(weights, rng.uniform(0.0, 0.9))
    else:
        (weights if kind == "no weights" else index).unlink()


def _cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def place(source: Path, target: Path, change: Callable[[Path], None] = lambda folder: None) -> None:
    """Copy a version and change it, under a hidden name first."""
    partial = partial_folder(target)
    shutil.copytree(source, partial)
    change(partial)
    partial.rename(target)


class Swapper:
    """Thread that replaces the version of a running server.

    In each interval a damaged version appears first, then a new one from the next export, and the
    older ones are deleted.

    Args:
        folder: Folder of the versions; the first one is placed at once.
        exports: The exports, served in turn.
        timeline: Receives the times of the versions.
        answers: Says which export a version is.
        rng: Source of the damages.
    """

    def __init__(
        self,
        folder: Path,
        exports: Sequence[Path],
        timeline: Timeline,
        answers: Answers,
        rng: random.Random,
    ) -> None:
        self.faults: list[str] = []
        self.swaps = 0
        self.damaged = 0
        self.longest = 0.0
        self._folder, self._exports, self._rng = folder, exports, rng
        self._timeline, self._answers = timeline, answers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._url, self._interval = "", 0.0
        self._place(1)

    def start(self, url: str, interval: float) -> None:
        """Start to replace versions.

        Args:
            url: The model's address.
            interval: Seconds between two new versions.
        """
        self._url, self._interval = url, interval
        self._thread.start()

    def stop(self) -> None:
        """End after the current step."""
        self._stop.set()
        self._thread.join(2 * LOADING)

    def _run(self) -> None:
        version = 1
        try:
            while not self._stop.wait(self._interval / 2):
                self._place_damaged(version + 1)
                if self._stop.wait(self._interval / 2):
                    return
                self._replace(version, version + 3)  # odd and even in turn
                version += 3
        except Exception as error:
            self.faults.append(f"replacing versions: {type(error).__name__}: {error}")

    def _place(self, version: int) -> None:
        self._timeline.placed(version, time.monotonic())
        place(self._exports[self._answers.export(version)], self._folder / str(version))

    def _place_damaged(self, version: int) -> None:
        kind = DAMAGES[self.damaged % len(DAMAGES)]
        source = self._rng.choice(self._exports)
        place(source, self._folder / str(version), lambda folder: damage(folder, kind, self._rng))
        self.damaged += 1
        state = self._wait(version, ("AVAILABLE", "END"))
        if state != "END":
            self.faults.append(f"version {version} ({kind}): expected END, got {state}")

    def _replace(self, old: int, new: int) -> None:
        started = time.monotonic()
        self._place(new)
        state = self._wait(new, ("AVAILABLE", "END"))
        if state != "AVAILABLE":
            self.faults.append(f"version {new}: expected AVAILABLE, got {state}")
            return
        self.longest = max(self.longest, time.monotonic() - started)
        shutil.rmtree(self._folder / str(old))
        shutil.rmtree(self._folder / str(old + 1))  # the damaged one
        self._wait(old, ("UNLOADING", "END", "unknown"))
        self._timeline.gone(old, time.monotonic())
        self.swaps += 1

    def _wait(self, version: int, states: Sequence[str]) -> str:
        """Wait until a version has one of the states; return its last one."""
        deadline, state = time.monotonic() + LOADING, "unknown"
        while time.monotonic() < deadline:
            state = self._state(version)
            if state in states:
                break
            time.sleep(0.1)
        return state

    def _state(self, version: int) -> str:
        try:
            with urllib.request.urlopen(f"{self._url}/versions/{version}", timeout=30) as reply:
                [status] = json.load(reply)["model_version_status"]
        except urllib.error.HTTPError as error:
            return "unknown" if error.code == 404 else f"status {error.code}"
        return str(status["state"])
