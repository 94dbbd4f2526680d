"""Run log for people, and metrics for programs."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from keras_transformer import system
from keras_transformer.training.errors import TrainingError


def print_line(text: str) -> None:
    """Print a line on standard error, above a progress bar if there is one."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()


class RunLog:
    """The files log.txt, metrics.jsonl and steps.jsonl of a run.

    log.txt has lines for people. metrics.jsonl has one record per checkpoint and average, and
    steps.jsonl, the longer file, one per ``log_every`` steps.

    Args:
        path: The run folder.
        silent: Print and write nothing, as all workers but the chief do.
    """

    def __init__(self, path: Path, silent: bool = False) -> None:
        self._log = path / "log.txt"
        self._metrics = path / "metrics.jsonl"
        self._steps = path / "steps.jsonl"
        self._silent = silent

    def line(self, text: str) -> None:
        """Print a line on standard error and append it to log.txt."""
        if not self._silent:
            print_line(text)
        self.note(text)

    def note(self, text: str) -> None:
        """Append a line to log.txt, with the time."""
        self._append(self._log, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def record(self, values: dict[str, Any]) -> None:
        """Append a record to metrics.jsonl; infinity and NaN become null, as JSON lacks them."""
        self._append_record(self._metrics, values)

    def record_steps(self, values: dict[str, Any]) -> None:
        """Append a record to steps.jsonl, rounded to seven digits."""
        rounded = {
            name: float(f"{value:.7g}") if isinstance(value, float) else value
            for name, value in values.items()
        }
        self._append_record(self._steps, rounded)

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
            if path.exists():
                system.check_regular(path)  # opening a pipe would wait for its reader
            with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError as error:
            raise TrainingError(f"{path}: cannot be written: {error}") from error

    def records(self) -> list[dict[str, Any]]:
        """Return the records of metrics.jsonl, oldest first, without truncated lines."""
        return _records(self._metrics)

    def steps(self) -> list[dict[str, Any]]:
        """Return the records of steps.jsonl, oldest first, without truncated lines."""
        return _records(self._steps)

    def truncate(self, step: int) -> list[dict[str, Any]]:
        """Remove the records of steps after ``step``, which will be repeated.

        A truncated line of a killed run is removed too.

        Returns:
            The remaining records of metrics.jsonl, oldest first.
        """
        self._truncate(self._steps, step)
        return self._truncate(self._metrics, step)

    def _truncate(self, path: Path, step: int) -> list[dict[str, Any]]:
        kept = [record for record in _records(path) if record["step"] <= step]
        if path.exists() and not self._silent:
            text = "".join(json.dumps(record) + "\n" for record in kept)
            system.write_text(path, text)
        return kept


def _records(path: Path) -> list[dict[str, Any]]:
    try:
        text = system.read_bytes(path).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TrainingError(f"{path}: cannot be read: {error.strerror}") from error
    found = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            found.append(record)
    return found
