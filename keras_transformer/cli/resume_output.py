"""Continuation of an interrupted translation: the output is appended to, done lines are skipped."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from keras_transformer import system
from keras_transformer.cli.messages import UsageError
from keras_transformer.data.lines import decode_line


@contextlib.contextmanager
def continue_output(
    path: Path, numbered: bool, inputs: Mapping[str, Iterator[str]]
) -> Iterator[tuple[TextIO, int]]:
    """Open an output to continue it, and skip the input lines that are done.

    An incomplete last line is cut off when the first new line is written, or at the end. So if the
    block fails before, the file stays unchanged, or missing.

    Args:
        path: The file; created if it does not exist.
        numbered: Each input line has several output lines, which begin with its number and a tab.
            The lines of the last number are cut off too, since further ones may be missing.
        inputs: The lines of each input, by its name for messages.

    Yields:
        The stream, and the number of input lines done.

    Raises:
        UsageError: The output is not a regular file, has lines without the expected numbers, or
            has more lines than an input.
        DataError: The output or an input is not UTF-8.
        FileError: Another process is writing it.
    """
    if os.path.lexists(path) and not path.is_file():
        raise UsageError(f"--append: expected a regular file, {path} is not one")
    with system.write_lock(path):
        is_new = not path.exists()
        try:
            with (
                _ContinuedFile(path) as file,
                io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", newline="\n") as stream,
            ):
                done, file.size = completed_lines(path, numbered)
                for name, lines in inputs.items():
                    _skip(lines, done, name)
                yield stream, done
                stream.flush()
                file.cut()
        except BaseException:
            if is_new and not path.stat().st_size:
                path.unlink()
            raise


class _ContinuedFile(io.FileIO):
    """A file that is cut off at ``size`` before anything is appended."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a")
        self.size: int | None = None

    def cut(self) -> None:
        """Cut off the bytes beyond ``size``, once."""
        if self.size is not None:
            self.truncate(self.size)
            self.size = None

    def write(self, data: Any) -> int:
        self.cut()
        return super().write(data)


def completed_lines(path: Path, numbered: bool) -> tuple[int, int]:
    """Return how many input lines an output has finished, and the bytes of those lines in it.

    Args:
        path: The output.
        numbered: As in ``continue_output``.

    Raises:
        UsageError: A number is missing, or is neither that of the line before nor the next one.
        DataError: A line is not UTF-8.
    """
    done = size = position = 0
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                break
            decode_line(raw, f"--append: {path}", line)
            if numbered:
                expected = [done + 1, done + 2] if position else [1]
                number = _number(path, line, raw, expected)
                if number != done + 1:  # the first line of the next number
                    done, size = number - 1, position
            else:
                done, size = line, position + len(raw)
            position += len(raw)
    return done, size


def _number(path: Path, line: int, raw: bytes, expected: list[int]) -> int:
    """Return the number at the beginning of a line, one of those expected."""
    match = re.match(rb"(\d{1,19})\t", raw)
    number = int(match[1]) if match else 0
    if number not in expected:
        raise UsageError(
            f"--append: {path}, line {line}: expected the number of an input line, "
            f"{' or '.join(map(str, expected))}, and a tab, as search.n_best above 1 writes them"
        )
    return number


def _skip(lines: Iterator[str], done: int, name: str) -> None:
    """Skip the first ``done`` lines.

    Raises:
        UsageError: There are fewer lines.
    """
    found = sum(1 for _ in itertools.islice(lines, done))
    if found < done:
        raise UsageError(
            f"--append: the output already has {done} lines; expected at least as many in "
            f"{name}, got {found}"
        )
