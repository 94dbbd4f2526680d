"""CTranslate2's model.bin: names, shapes, types and numbers, little-endian."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import limits

_VERSIONS = range(2, 7)
_MAX_RANK = 8
_TYPES = ("<f4", "|i1", "<i2", "<i4", "<f2", "<u2")
_BFLOAT16 = 5
# Before version 4, the width of an element stands for its type.
_TYPE_OF_WIDTH = {4: 0, 2: 2, 1: 1}


class _Entry(NamedTuple):
    type: int
    shape: tuple[int, ...]
    start: int


class CTranslate2File(Mapping[str, np.ndarray]):
    """The variables of a model.bin by name, aliases among them; read when looked up.

    Args:
        path: The file.

    Raises:
        ConvertError: It is no such file, damaged, or of an unknown version.
    """

    def __init__(self, path: Path) -> None:
        limits.check_size(path, limits.MAX_WEIGHTS_BYTES)
        self._path = path
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._position = 0
        self.version = self._number(4)
        """Version of the file's form."""
        if self.version not in _VERSIONS:
            raise ConvertError(
                f"{path}: expected a model.bin of version {_VERSIONS[0]} to {_VERSIONS[-1]}, got "
                f"{self.version}: other data, or of another version of CTranslate2"
            )
        self.name = self._text()
        """Name of the kind of model."""
        self.revision = self._number(4)
        """Version of the variables' names."""
        self._entries: dict[str, _Entry] = {}
        self._read_variables()
        if self.version >= 3:
            self._read_aliases()
        if self._position != len(self._data):
            left = len(self._data) - self._position
            raise ConvertError(f"{path}: expected its end, got {left:,} more bytes")

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise ConvertError(f"{self._path}: it ends too early (a half-copied file?)")
        data = self._data[self._position : end]
        self._position = end
        return data

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _text(self) -> str:
        data = self._take(self._number(2))
        try:
            return data.rstrip(b"\0").decode()
        except UnicodeDecodeError:
            raise ConvertError(f"{self._path}: expected names, got other data") from None

    def _read_variables(self) -> None:
        count = self._number(4)
        if count > limits.MAX_TENSORS:
            raise ConvertError(f"{self._path}: expected at most {limits.MAX_TENSORS:,} variables")
        for _ in range(count):
            name = self._text()
            rank = self._number(1)
            if rank > _MAX_RANK or name in self._entries:
                raise ConvertError(f"{self._path}: {name[:80]}: damaged, or there twice")
            shape = tuple(self._number(4) for _ in range(rank))
            if self.version >= 4:
                kind, size = self._number(1), self._number(4)
            else:
                width = self._number(1)
                kind, size = _TYPE_OF_WIDTH.get(width, len(_TYPES)), self._number(4) * width
            if kind >= len(_TYPES):
                raise ConvertError(f"{self._path}: {name}: expected a known type, got {kind}")
            expected = math.prod(shape) * np.dtype(_TYPES[kind]).itemsize
            # The size is stored modulo 2^32; larger matrices are split nowhere.
            if size != expected % 2**32:
                raise ConvertError(f"{self._path}: {name}: expected {expected} bytes, got {size}")
            self._entries[name] = _Entry(kind, shape, self._position)
            self._skip(expected)

    def _skip(self, size: int) -> None:
        if self._position + size > len(self._data):
            raise ConvertError(f"{self._path}: it ends too early (a half-copied file?)")
        self._position += size

    def _read_aliases(self) -> None:
        for _ in range(self._number(4)):
            alias, name = self._text(), self._text()
            if name not in self._entries or alias in self._entries:
                raise ConvertError(f"{self._path}: {alias[:80]}: expected an alias of a variable")
            self._entries[alias] = self._entries[name]

    def __getitem__(self, name: str) -> np.ndarray:
        kind, shape, start = self._entries[name]
        values = np.frombuffer(self._data, _TYPES[kind], math.prod(shape), start).reshape(shape)
        if kind == _BFLOAT16:
            return (values.astype(np.uint32) << 16).view(np.float32)
        return np.array(values)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
