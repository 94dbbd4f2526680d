"""Moments of a disturbance: after some time, or at an event in a folder."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.system import partial_folder

LATEST = 0.05
"""Greatest number of seconds between an event and the disturbance."""
_FILES = 12  # of a folder that is written aside, before it gets its name

Fired = Callable[[], bool]


@dataclass(frozen=True)
class Moment:
    """A moment in the life of a process.

    Args:
        event: "time", or what is written: "preparation", "checkpoint", "best", "average",
            "export", "lines".
        share: Random number from 0 to 1, such as the share of the remaining time.
        delay: Seconds after the event.
    """

    event: str
    share: float
    delay: float

    def __str__(self) -> str:
        if self.event == "time":
            return f"time {self.share:.3f}"
        return f"{self.event} {self.share:.3f} + {1000 * self.delay:.0f} ms"


def draw(rng: random.Random, event: str) -> Moment:
    """Draw the random numbers of a moment."""
    return Moment(event, rng.random(), rng.uniform(0.0, LATEST))


def earlier(missed: Moment, rng: random.Random) -> Moment:
    """Draw an earlier moment of the same kind, after a process that ended before the first."""
    share = missed.share if missed.event == "time" else 1.0
    return Moment(missed.event, rng.random() * share, rng.random() * missed.delay)


def draw_training(rng: random.Random, count: int, index: int) -> list[Moment]:
    """Draw the moments of a chain of kills of a training run.

    Half of them are at any time. Odd chains begin with the preparation, even ones end with the
    averages; the others are at checkpoints and best weights.

    Args:
        rng: Source of randomness.
        count: Number of moments.
        index: Number of the chain, from 1.
    """
    events = [rng.choice(("time", "time", "checkpoint", "best")) for _ in range(count)]
    if index % 2:
        events[0] = "preparation"
    else:
        events[-1] = "average"
    return [draw(rng, event) for event in events]


def after(seconds: float) -> Fired:
    """Return an event that happens after some seconds."""
    due = time.monotonic() + seconds
    return lambda: time.monotonic() >= due


def event(moment: Moment, run: Path, final_step: int) -> Fired:
    """Return a function that says whether the event of a moment has happened.

    Call it before the process starts: files that are there already do not count.

    Args:
        moment: A moment of training, other than "time".
        run: The run folder.
        final_step: The last step of the uninterrupted run.
    """
    if moment.event == "preparation":
        return preparation(moment, run)
    if moment.event == "checkpoint":
        folder, known = run / "checkpoints", _names(run / "checkpoints")
        wanted = 1 + int(2 * moment.share)
        return lambda: len(_steps(_names(folder) - known)) >= wanted
    if moment.event == "best":
        return _best(moment, run)
    return _average(moment, run, final_step)


def preparation(moment: Moment, folder: Path) -> Fired:
    """Return whether some of the files of a folder are written, or the folder is complete."""
    partial, wanted = partial_folder(folder), 1 + int(_FILES * moment.share)
    return lambda: _count(partial) >= wanted or folder.exists()


def _best(moment: Moment, run: Path) -> Fired:
    """Best weights are written aside, or have just got their name."""
    best, before = run / "best.weights.h5", _version(run / "best.weights.h5")
    if moment.share < 0.5:
        return lambda: any("best.weights" in name and name.startswith(".") for name in _names(run))
    return lambda: _version(best) != before


def _average(moment: Moment, run: Path, final_step: int) -> Fired:
    """The last checkpoint is written, or one of the averages is scored."""
    last = run / "checkpoints" / f"step-{final_step}.index"
    metrics, log = run / "metrics.jsonl", run / "log.txt"
    finished, size = last.exists(), _version(log)

    def scored() -> bool:
        return last.exists() and "averaged" in metrics.read_text(encoding="utf-8", errors="replace")

    if finished:  # an earlier process got as far: the averages follow soon after the start
        return lambda: _version(log) != size
    return scored if moment.share < 0.5 else last.exists


def _names(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()}
    except OSError:
        return set()


def _steps(names: set[str]) -> set[str]:
    return {name.partition(".")[0].partition("_")[0] for name in names}


def _count(folder: Path) -> int:
    try:
        return sum(1 for path in folder.rglob("*") if path.is_file())
    except OSError:  # it gets its name meanwhile
        return 0


def _version(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
