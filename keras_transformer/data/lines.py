"""Lines of a UTF-8 text file.

A line is what ``wc -l`` counts: only a line feed ends it. A last line without one counts too.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.data.errors import DataError


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
                text = raw.decode("utf-8")
                if number == 1:
                    text = text.removeprefix("\ufeff")
                yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}: expected UTF-8 text, got byte 0x{error.object[error.start]:02x} "
            f"at byte {error.start + 1} of the line"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        position = f" after line {number}" if number else ""
        raise DataError(f"{path}: cannot be read{position} ({reason})") from error
