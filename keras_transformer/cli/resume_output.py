"""Continuation of the output file of an interrupted translation."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from keras_transformer import system
from keras_transformer.cli.messages import UsageError


@contextlib.contextmanager
def continue_output(path: Path, numbered: bool) -> Iterator[tuple[TextIO, int]]:
    """Open an output to continue it; yield the stream and the number of input lines done.

    An incomplete last line is cut off.

    Args:
        path: The file; created if it does not exist.
        numbered: Whether each input line has several output lines, which begin with its number
            and a tab. The lines of the last number are cut off too, since some may be missing.

    Raises:
        UsageError: Not a regular file, or lines without the expected numbers.
        FileError: Another process is writing it.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"--append: expected a regular file, {path} is not one")
    with system.write_lock(path), path.open("a", encoding="utf-8", newline="\n") as stream:
        done, size = completed_lines(path, numbered)
        os.truncate(path, size)
        yield stream, done


def completed_lines(path: Path, numbered: bool) -> tuple[int, int]:
    """Return the number of input lines done in an output, and the bytes of their lines.

    Args:
        path: The output.
        numbered: As in ``continue_output``.
    """
    done = size = position = 0
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                break
            if numbered:
                number = _number(path, line, raw)
                if number != done + 1:  # the first line of the next number
                    done, size = number - 1, position
            else:
                done, size = line, position + len(raw)
            position += len(raw)
    return done, size


def _number(path: Path, line: int, raw: bytes) -> int:
    start, tab, _ = raw.partition(b"\t")
    if not tab or not start.isdigit() or int(start) < 1:
        raise UsageError(
            f"--append: {path}, line {line}: expected the number of an input line and a tab, "
            "as search.n_best above 1 writes them"
        )
    return int(start)


def skip(lines: Iterator[str], done: int, name: str) -> Iterator[str]:
    """Skip the first ``done`` lines.

    Args:
        lines: All lines.
        done: Number of lines to skip.
        name: Name of the input, for messages.

    Raises:
        UsageError: There are fewer lines.
    """
    found = sum(1 for _ in itertools.islice(lines, done))
    if found < done:
        raise UsageError(
            f"--append: the output already has {done} lines; expected at least as many in "
            f"{name}, got {found}"
        )
    return lines
