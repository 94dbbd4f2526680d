"""Trials of the endurance test: plan, results on disk, execution side by side."""

from __future__ import annotations

import json
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHAIN = 5
"""Most kills of one run before it is left to end."""


class TrialError(Exception):
    """A result that differs from the expected one; the message says how.

    Args:
        message: The difference.
        details: Facts about the trial, kept with its result.
    """

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}


@dataclass(frozen=True)
class Trial:
    """One run of a command that is disturbed, resumed and compared.

    Args:
        section: Such as "training".
        kind: Kind of run or of disturbance, such as "replicas" or "SIGTERM".
        index: Number among the trials of the kind.
        count: Number of disturbances.
        seed: Seed of the whole test.
    """

    section: str
    kind: str
    index: int
    count: int
    seed: int

    @property
    def name(self) -> str:
        """Name of the trial, also that of its folder."""
        return f"{self.section}-{self.kind}-{self.index}".replace(" ", "-")

    def random(self) -> random.Random:
        """Return a generator that depends on the seed and the name."""
        return random.Random(f"{self.seed} {self.name}")


@dataclass
class Result:
    """A finished trial, one line of trials.jsonl.

    Args:
        name: Name of the trial.
        section: Its section.
        kind: Its kind.
        seed: Seed of the test.
        count: Number of disturbances that were made.
        failure: Reason why it failed, empty if it passed.
        seconds: Duration.
        details: Facts about the trial, such as the moments of the kills.
    """

    name: str
    section: str
    kind: str
    seed: int
    count: int
    failure: str
    seconds: float
    details: dict[str, Any] = field(default_factory=dict)


class TrialLog:
    """The file trials.jsonl: a line for each finished trial.

    Args:
        path: The file; created with the first result.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._closed = False

    def results(self) -> list[Result]:
        """Return the finished trials; a truncated last line is ignored."""
        if not self._path.exists():
            return []
        found = {}
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                result = Result(**json.loads(line))
            except (ValueError, TypeError):
                continue
            found[result.name, result.seed, result.count] = result
        return list(found.values())

    def add(self, result: Result) -> bool:
        """Append a result; return false if the log is closed."""
        line = json.dumps(vars(result), ensure_ascii=False) + "\n"
        with self._lock:
            if self._closed:
                return False
            with self._path.open("a+b") as file:
                # After a kill in the middle of a line, the next one begins on its own.
                if file.tell() and not self._ends_with_newline():
                    line = "\n" + line
                file.write(line.encode())
        return True

    def close(self) -> None:
        """Take no more results: trials fail when the test itself is interrupted."""
        with self._lock:
            self._closed = True

    def _ends_with_newline(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            return file.read() == b"\n"

    def result(self, trial: Trial) -> Result | None:
        """Return the last result of a trial, None if it has not finished."""
        key = (trial.name, trial.seed, trial.count)
        return next(
            (item for item in self.results() if (item.name, item.seed, item.count) == key), None
        )


def chains(section: str, kinds: Sequence[str], total: int, seed: int) -> list[Trial]:
    """Divide a number of disturbances among chains of trials over all kinds in turn."""
    size = max(1, min(CHAIN, total // len(kinds)))
    counts = [size] * (total // size) + [total % size] * (total % size > 0)
    return [
        Trial(section, kinds[i % len(kinds)], i // len(kinds) + 1, count, seed)
        for i, count in enumerate(counts)
    ]


def repeated(section: str, kinds: Iterable[str], each: int, seed: int) -> list[Trial]:
    """Return ``each`` trials with one disturbance for every kind."""
    return [Trial(section, kind, i + 1, 1, seed) for kind in kinds for i in range(each)]


Run = Callable[[Trial], dict[str, Any]]
"""Runs a trial and returns its details; raises TrialError if it fails."""


def run_all(
    trials: Sequence[Trial], run: Run, log: TrialLog, jobs: int, report: Callable[[Result], None]
) -> list[Result]:
    """Run the trials that have no result yet, and return the results of all.

    Args:
        trials: The trials.
        run: Runs one of them.
        log: Has the earlier results and receives the new ones.
        jobs: Trials at the same time.
        report: Called with each new result.
    """

    def finish(trial: Trial) -> Result:
        done = log.result(trial)
        if done is not None:
            return done
        result = run_one(trial, run)
        if log.add(result):
            report(result)
        return result

    pool = ThreadPoolExecutor(jobs)
    try:
        return list(pool.map(finish, trials))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_one(trial: Trial, run: Run) -> Result:
    """Run a trial; any error is its failure."""
    started, failure = time.monotonic(), ""
    details: dict[str, Any] = {}
    try:
        details = run(trial)
    except TrialError as error:
        failure, details = str(error), error.details
    except Exception as error:  # a fault of the test itself must not end the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        failure = f"{type(error).__name__}: {error} ({place})"
    return Result(
        trial.name,
        trial.section,
        trial.kind,
        trial.seed,
        trial.count,
        failure,
        round(time.monotonic() - started, 1),
        details,
    )
