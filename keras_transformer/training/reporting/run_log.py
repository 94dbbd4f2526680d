"""The records of a run: lines for people, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from keras_transformer import system
from keras_transformer.errors import UserError


class TrainingError(UserError):
    """Training that cannot go on."""


def tell(text: str) -> None:
    """Tell people, on standard error, above a bar that is there."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()


class RunLog:
    """The records of a run.

    log.txt has lines for people; metrics.jsonl one record for each checkpoint and average;
    steps.jsonl one for every ``log_every`` steps, kept apart because there are many.

    Args:
        path: The run folder.
        silent: Say and write nothing, as every worker but the chief.
    """

    def __init__(self, path: Path, silent: bool = False) -> None:
        self._log = path / "log.txt"
        self._metrics = path / "metrics.jsonl"
        self._steps = path / "steps.jsonl"
        self._silent = silent

    def line(self, text: str) -> None:
        """Tell people, on standard error and in log.txt."""
        if not self._silent:
            tell(text)
        self.note(text)

    def note(self, text: str) -> None:
        """Add a line to log.txt, with the time."""
        self._append(self._log, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def record(self, values: dict[str, Any]) -> None:
        """Add one record to metrics.jsonl; infinities, which JSON has not, become null."""
        self._append_record(self._metrics, values)

    def record_steps(self, values: dict[str, Any]) -> None:
        """Add one record to steps.jsonl, to seven digits."""
        short = {
            name: float(f"{value:.7g}") if isinstance(value, float) else value
            for name, value in values.items()
        }
        self._append_record(self._steps, short)

    def _append_record(self, path: Path, values: dict[str, Any]) -> None:
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        self._append(path, json.dumps(finite, allow_nan=False) + "\n")

    def _append(self, path: Path, text: str) -> None:
        if self._silent:
            return
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise TrainingError(f"{path}: cannot be written: {error}") from error

    def records(self) -> list[dict[str, Any]]:
        """What metrics.jsonl holds, the oldest first; lines that were cut short are left out."""
        return _records(self._metrics)

    def steps(self) -> list[dict[str, Any]]:
        """The same of steps.jsonl."""
        return _records(self._steps)

    def forget_after(self, step: int) -> list[dict[str, Any]]:
        """Drop records of steps after ``step``, which are about to be taken again.

        A line that was cut short when the run was killed goes too.

        Returns:
            The records of metrics.jsonl that stay, the oldest first.
        """
        self._forget_after(self._steps, step)
        return self._forget_after(self._metrics, step)

    def _forget_after(self, path: Path, step: int) -> list[dict[str, Any]]:
        kept = [record for record in _records(path) if record.get("step", math.inf) <= step]
        if path.exists() and not self._silent:
            text = "".join(json.dumps(record) + "\n" for record in kept)
            with system.atomic_file(path) as place:
                place.write_text(text, encoding="utf-8")
        return kept


def _records(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found
