"""Lines of a UTF-8 text file.

A line is what ``wc -l`` counts: only a line feed ends it. A last line without one counts too.
"""

from __future__ import annotations

import gzip
import select
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from keras_transformer.data.errors import DataError

PATIENCE = 0.02
"""Seconds without input after which no more lines come at once. A program that writes as fast as
it can needs a moment to fill its pipe again."""
_CHUNK = 2**16


def read_lines(path: Path | str) -> Iterator[str]:
    """Stream the lines of a text file.

    A byte-order mark and carriage returns at line ends are dropped.

    Args:
        path: UTF-8 text, gzip-compressed if the name ends in ``.gz``.

    Raises:
        DataError: The file is missing, unreadable, or not UTF-8 (with the line).
    """
    path = Path(path)
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                yield _decode(raw, str(path), number)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(str(path), number, error) from error


class LineStream:
    """Lines of a pipe or a terminal, as soon as they arrive.

    Iterate over it as over `read_lines`.

    Args:
        file: Binary input with ``read1``.
        name: Its name, for messages.

    Raises:
        DataError: While iterating: unreadable, or not UTF-8 (with the line).
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._number = 0
        self._lines: deque[bytes] = deque()
        self._incomplete: list[bytes] = []
        self._ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self._lines:
            if self._ended:
                raise StopIteration
            self._read()
        self._number += 1
        return _decode(self._lines.popleft(), self._name, self._number)

    def ready(self) -> bool:
        """Return whether a line can be read at once; wait `PATIENCE` seconds for it."""
        while not (self._lines or self._ended) and self._has_input():
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Wait for input, and split it into lines."""
        try:
            data = self._file.read1(_CHUNK)  # type: ignore[attr-defined]
        except OSError as error:
            raise _unreadable(self._name, self._number, error) from error
        self._incomplete.append(data)
        self._ended = not data
        if self._ended or b"\n" in data:
            *lines, rest = b"".join(self._incomplete).split(b"\n")
            self._lines.extend(lines)
            self._incomplete = [rest]
        if self._ended and rest:
            self._lines.append(rest)

    def _has_input(self) -> bool:
        try:
            return bool(select.select([self._file], [], [], PATIENCE)[0])
        except (OSError, ValueError):  # no descriptor, or none that can be asked
            return True


def _decode(raw: bytes, name: str, number: int) -> str:
    """Decode a line and remove its end."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}:{number}: expected UTF-8 text, got byte 0x{raw[error.start]:02x} "
            f"at byte {error.start + 1} of the line"
        ) from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.removesuffix("\n").removesuffix("\r")


def _unreadable(name: str, number: int, error: Exception) -> DataError:
    reason = getattr(error, "strerror", None) or str(error)
    position = f" after line {number}" if number else ""
    return DataError(f"{name}: cannot be read{position} ({reason})")
