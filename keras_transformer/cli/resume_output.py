"""An output that a killed run left behind, and where to go on in it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from keras_transformer import system
from keras_transformer.cli.options import UsageError


@contextlib.contextmanager
def appended(place: Path, numbered: bool) -> Iterator[tuple[TextIO, int]]:
    """A file to go on with, and the lines of input that are done in it.

    What is not a whole line at its end is cut off.

    Args:
        place: The file; made if it is not there.
        numbered: Several lines of output for a line of input, each beginning with the number
            of that line and a tab. The last number's lines are cut off too: some of them may
            be missing.

    Raises:
        UsageError: Not a regular file, or lines without numbers where they are expected.
        FileError: Another process is writing it.
    """
    if place.exists() and not place.is_file():
        raise UsageError(f"--append: expected a regular file, {place} is none")
    with place.open("a", encoding="utf-8", newline="\n") as stream, system.lock(place):
        done, size = whole(place, numbered)
        os.truncate(place, size)
        yield stream, done


def whole(place: Path, numbered: bool) -> tuple[int, int]:
    """The lines of input that are done in an output, and the bytes that these lines take.

    Args:
        place: The output.
        numbered: As in ``appended``.
    """
    done = size = position = 0
    with place.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                break
            if numbered:
                number = _number(place, line, raw)
                if number != done + 1:  # the first line of the next number
                    done, size = number - 1, position
            else:
                done, size = line, position + len(raw)
            position += len(raw)
    return done, size


def _number(place: Path, line: int, raw: bytes) -> int:
    start, tab, _ = raw.partition(b"\t")
    if not tab or not start.isdigit() or int(start) < 1:
        raise UsageError(
            f"--append: {place}, line {line}: expected the number of an input line and a tab, "
            "as search.n_best above 1 writes them"
        )
    return int(start)


def skip(lines: Iterator[str], done: int, name: str) -> Iterator[str]:
    """The lines after those that are done.

    Args:
        lines: All lines.
        done: Lines to leave out.
        name: What they are, for messages.

    Raises:
        UsageError: There are fewer lines.
    """
    found = sum(1 for _ in itertools.islice(lines, done))
    if found < done:
        raise UsageError(
            f"--append: the output has {done} lines already, expected as many of {name} or more, "
            f"got {found}"
        )
    return lines
