"""NumPy archives without pickle, with their sizes checked before they are unpacked."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import limits

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_MAX_HEADER_BYTES = 10_000
# Weights hardly shrink when they are compressed; an archive that grows more is a trap.
_MAX_GROWTH = 20
_FREE_BYTES = 64 * 2**20  # archives of zeros up to this size are accepted


class _Entry(NamedTuple):
    file: zipfile.ZipInfo
    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool
    header: int


class NpzFile(Mapping[str, np.ndarray]):
    """The arrays of a ``.npz`` file by name; each is read when it is looked up.

    Args:
        path: The file. The headers of all arrays are checked here.

    Raises:
        ConvertError: It is no archive of plain arrays, damaged, or unpacks to too many bytes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        size = limits.check_size(path, limits.MAX_WEIGHTS_BYTES)
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise ConvertError(f"{path}: expected an archive of arrays (.npz): {error}") from None
        files = self._zip.infolist()
        sizes = [file.file_size for file in files]
        limits.check_tensor_sizes(path, sizes)
        if sum(sizes) > max(_FREE_BYTES, _MAX_GROWTH * size):
            raise ConvertError(
                f"{path}: expected at most {_MAX_GROWTH} times {size:,} bytes unpacked, got "
                f"{sum(sizes):,}"
            )
        self._entries: dict[str, _Entry] = {}
        for file in files:
            name = file.filename.removesuffix(".npy")
            if name == file.filename or name in self._entries:
                raise ConvertError(f"{path}: expected arrays, each once, got {file.filename!r}")
            self._entries[name] = self._entry(name, file)

    def _entry(self, name: str, file: zipfile.ZipInfo) -> _Entry:
        try:
            with self._zip.open(file) as stream:
                read = _HEADERS[np.lib.format.read_magic(stream)]
                shape, fortran, dtype = read(stream, max_header_size=_MAX_HEADER_BYTES)
                header = stream.tell()
        except KeyError:
            raise ConvertError(f"{self._path}: {name}: expected version 1 or 2 of .npy") from None
        except Exception as error:  # NumPy's parser of headers raises many kinds
            raise ConvertError(f"{self._path}: {name}: expected an array: {error}") from None
        if dtype.kind not in "fiub":
            raise ConvertError(f"{self._path}: {name}: expected numbers, got the type {dtype}")
        expected = header + math.prod(shape) * dtype.itemsize
        if file.file_size != expected or any(size < 0 for size in shape):
            raise ConvertError(
                f"{self._path}: {name}: expected {expected:,} bytes for the shape {shape}, got "
                f"{file.file_size:,}"
            )
        return _Entry(file, dtype, shape, fortran, header)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        try:
            with self._zip.open(entry.file) as stream:
                data = _read_exactly(stream, entry.file.file_size)[entry.header :]
        except (*_READ_ERRORS, ValueError) as error:
            raise ConvertError(f"{self._path}: {name}: cannot be read: {error}") from None
        values = np.frombuffer(data, entry.dtype)
        return values.reshape(entry.shape, order="F" if entry.fortran else "C")

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


# RuntimeError: an encrypted file.
_READ_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
)


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    """Read ``size`` bytes, which is all that the archive's directory promises."""
    data = stream.read(size)
    if len(data) != size:
        raise EOFError(f"expected {size:,} bytes, got {len(data):,}")
    return data
