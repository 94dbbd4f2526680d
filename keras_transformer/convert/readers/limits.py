"""Limits on the size of foreign files."""

from __future__ import annotations

from pathlib import Path

from keras_transformer import system
from keras_transformer.convert.errors import ConvertError

MAX_TEXT_BYTES = 64 * 2**20
"""Greatest size of a vocabulary or of settings; the largest known vocabularies have 20 MiB."""
MAX_WEIGHTS_BYTES = 64 * 2**30
"""Greatest size of the weights, of all tensors together."""
MAX_TENSORS = 100_000
"""Most tensors of a file."""


def check_size(path: Path, limit: int) -> int:
    """Check that a path is a readable file of at most ``limit`` bytes; return its size.

    Raises:
        ConvertError: It is missing, no regular file, empty, or larger.
    """
    try:
        system.check_regular(path)
        size = path.stat().st_size
    except OSError as error:
        raise ConvertError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not 0 < size <= limit:
        raise ConvertError(f"{path}: expected 1 to {limit:,} bytes, got {size:,}")
    return size


def read_bytes(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Return the contents of a file.

    Raises:
        ConvertError: It cannot be read, or is empty or larger than ``limit`` bytes.
    """
    check_size(path, limit)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConvertError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_text(path: Path) -> str:
    """Return the contents of a UTF-8 file, with line ends as they are.

    Raises:
        ConvertError: It cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConvertError(f"{path}: expected UTF-8 text, got {error.reason}") from None


def check_tensor_sizes(path: Path, sizes: list[int]) -> None:
    """Check the number of tensors and their bytes, before any is read.

    Raises:
        ConvertError: They exceed the limits.
    """
    if len(sizes) > MAX_TENSORS:
        raise ConvertError(f"{path}: expected at most {MAX_TENSORS:,} tensors, got {len(sizes):,}")
    if sum(sizes) > MAX_WEIGHTS_BYTES:
        raise ConvertError(
            f"{path}: expected at most {MAX_WEIGHTS_BYTES:,} bytes of weights, got {sum(sizes):,}"
        )
