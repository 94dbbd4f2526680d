"""Safetensors files: a length, a JSON header of types, shapes and offsets, then the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import limits
from keras_transformer.convert.readers.json_file import parse_object

_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # the upper half of a float32
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U8": "<u1",
    "BOOL": "?",
}
_MAX_HEADER_BYTES = 100_000_000  # as in the reference implementation


class _Entry(NamedTuple):
    type: str
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile(Mapping[str, np.ndarray]):
    """The tensors of a safetensors file by name; each is read when it is looked up.

    Args:
        path: The file. All offsets and sizes are checked here.

    Raises:
        ConvertError: It is no safetensors file, damaged, or too large.
    """

    def __init__(self, path: Path) -> None:
        size = limits.check_size(path, limits.MAX_WEIGHTS_BYTES)
        self._path = path
        self._data = np.memmap(path, np.uint8, "r")
        header = int.from_bytes(self._data[:8].tobytes(), "little")
        self._start = 8 + header
        if size < 8 or header > _MAX_HEADER_BYTES or self._start > size:
            raise ConvertError(f"{path}: expected a safetensors file, got other or cut data")
        values = parse_object(self._data[8 : self._start].tobytes(), path)
        values.pop("__metadata__", None)
        self._entries = {name: self._entry(name, value) for name, value in values.items()}
        limits.check_tensor_sizes(path, [each.end - each.begin for each in self._entries.values()])
        position = 0
        for entry in sorted(self._entries.values(), key=lambda entry: (entry.begin, entry.end)):
            if entry.begin != position:  # overlapping tensors, or hidden bytes between them
                raise ConvertError(f"{path}: expected tensors one after the other, got a gap")
            position = entry.end
        if self._start + position != size:
            raise ConvertError(
                f"{path}: expected {self._start + position:,} bytes, got {size:,} (cut short?)"
            )

    def _entry(self, name: str, value: Any) -> _Entry:
        try:
            kind, shape = value["dtype"], tuple(value["shape"])
            begin, end = value["data_offsets"]
            numbers = (*shape, begin, end)
            valid = all(type(number) is int and number >= 0 for number in numbers)
        except (TypeError, KeyError, ValueError):
            valid, kind = False, ""
        if not valid or kind not in _TYPES:
            raise ConvertError(
                f"{self._path}: {name}: expected type, shape and offsets, got {kind}"
            )
        expected = math.prod(shape) * np.dtype(_TYPES[kind]).itemsize
        if end - begin != expected:
            raise ConvertError(
                f"{self._path}: {name}: expected {expected:,} bytes for {kind} {shape}, got "
                f"{end - begin:,}"
            )
        return _Entry(kind, shape, begin, end)

    def __getitem__(self, name: str) -> np.ndarray:
        kind, shape, begin, end = self._entries[name]
        data = self._data[self._start + begin : self._start + end]
        values = np.frombuffer(data.tobytes(), _TYPES[kind]).reshape(shape)
        if kind == "BF16":
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
