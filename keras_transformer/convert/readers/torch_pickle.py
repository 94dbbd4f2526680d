"""Pickles of PyTorch as data: tensors that know their place in the file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.pickle_data import (
    Global,
    PickleData,
    Record,
    dictionary,
)

_BFLOAT16 = "bfloat16"
_STORAGES = {
    "Float": "<f4",
    "Half": "<f2",
    "BFloat16": _BFLOAT16,
    "Double": "<f8",
    "Long": "<i8",
    "Int": "<i4",
    "Short": "<i2",
    "Char": "|i1",
    "Byte": "|u1",
    "Bool": "|b1",
}
_TENSORS = ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor")
_PARAMETER = "torch._utils._rebuild_parameter"
_ORDERED_DICT = "collections.OrderedDict"
# Names whose objects are kept as records, beside those that a format adds. Byte strings of a
# pickle of protocol 2 are calls of `_codecs.encode`; scores are often NumPy's numbers.
_PLAIN = frozenset(
    {
        *("argparse.Namespace", "collections.defaultdict", "collections.Counter"),
        *("torch.Size", "torch.device", "_codecs.encode"),
        *("torch.float16", "torch.float32", "torch.float64", "torch.bfloat16", "torch.int64"),
        *("numpy.dtype", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"),
        *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("set", "dict")),
        *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("int", "list")),
    }
)


@dataclass(frozen=True)
class Storage:
    """Elements of one type in the file."""

    key: str
    dtype: str
    size: int

    @property
    def stored(self) -> np.dtype:
        """Type of the elements in the file: bfloat16 as uint16."""
        return np.dtype("<u2" if self.dtype == _BFLOAT16 else self.dtype)


@dataclass(frozen=True)
class Tensor:
    """A view of a storage; `read` returns its numbers.

    Args:
        storage: The storage.
        offset: Index of its first element in the storage.
        shape: Its shape.
        strides: Its strides, in elements.
        source: Reader of the storages.
    """

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    source: Storages

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))

    def read(self) -> np.ndarray:
        """Read the numbers, bfloat16 as float32.

        Raises:
            ConvertError: The file ends before them, or repeats few of them many times.
        """
        if self.size > max(self.storage.size, 1):  # strides of 0 could ask for all memory
            raise ConvertError(
                f"{self.source.path}: expected at most {self.storage.size:,} elements, the size of "
                f"the storage, in a tensor of shape {self.shape}"
            )
        values = self.source.elements(self.storage)
        array = np.lib.stride_tricks.as_strided(
            values[self.offset :],
            self.shape,
            [stride * values.itemsize for stride in self.strides],
            writeable=False,
        )
        if self.storage.dtype == _BFLOAT16:
            return (array.astype(np.uint32) << 16).view(np.float32)
        return np.array(array)


class Storages:
    """The storages of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}  # key: first byte, number of bytes
        self._sizes: dict[str, Storage] = {}

    def place(self, key: str, start: int, size: int) -> None:
        """Say where the bytes of a storage are."""
        self._places[key] = (start, size)

    def resolve(self, identifier: Any) -> Storage:
        """Return the storage of a persistent id: ("storage", type, key, device, elements, …)."""
        if not (
            isinstance(identifier, tuple)
            and len(identifier) in (5, 6)
            and identifier[0] == "storage"
            and isinstance(identifier[1], Global)
            and isinstance(identifier[4], int)
            and identifier[4] >= 0
        ):
            raise ConvertError(f"{self.path}: expected tensors of torch.save, got another object")
        if identifier[5:] not in ((), (None,)):
            raise ConvertError(f"{self.path}: views of storages are refused: save it again")
        name = identifier[1].name.removeprefix("torch.").removesuffix("Storage")
        storage = Storage(str(identifier[2]), _STORAGES[name], identifier[4])
        known = self._sizes.setdefault(storage.key, storage)
        if known != storage:
            raise ConvertError(f"{self.path}: storage {storage.key}: expected one type and size")
        return storage

    @property
    def all(self) -> Mapping[str, Storage]:
        """Storages to which the pickle refers, by key."""
        return self._sizes

    def elements(self, storage: Storage) -> np.ndarray:
        """Return the elements of a storage, mapped from the file; bfloat16 as uint16."""
        dtype = storage.stored
        start, size = self._places.get(storage.key, (0, 0))
        if size < storage.size * dtype.itemsize:
            raise ConvertError(
                f"{self.path}: storage {storage.key}: expected "
                f"{storage.size * dtype.itemsize:,} bytes, got {size:,} (a half-copied file?)"
            )
        if not storage.size:
            return np.zeros(0, dtype)
        return np.memmap(self.path, dtype, "r", start, (storage.size,))


class TorchPickles:
    """Reader of the pickles of one file."""

    def __init__(self, path: Path, records: Callable[[str], bool]) -> None:
        self.path = path
        self.storages = Storages(path)
        self._records = records

    def read(self, stream: io.BytesIO) -> Any:
        resolve = self.storages.resolve
        return PickleData(stream, self.path, self._allows, resolve, self._reduce).value

    def _allows(self, name: str) -> bool:
        storage = name.removeprefix("torch.").removesuffix("Storage")
        return (
            (storage in _STORAGES and name == f"torch.{storage}Storage")
            or name in _TENSORS
            or name in (_PARAMETER, _ORDERED_DICT)
            or name in _PLAIN
            or self._records(name)
        )

    def _reduce(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == _ORDERED_DICT:
            return dictionary(arguments[0]) if arguments else {}
        if name == _PARAMETER and isinstance(arguments[0], Tensor):
            return arguments[0]
        if name in _TENSORS:
            return self._tensor(*arguments[:4])
        if name == "torch.Size":
            return tuple(arguments[0])
        return Record(name, arguments)

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> Tensor:
        numbers = (offset, *shape, *strides)
        if not (
            isinstance(storage, Storage)
            and all(type(number) is int and number >= 0 for number in numbers)
            and len(shape) == len(strides)
        ):
            raise ConvertError(f"{self.path}: expected tensors of torch.save, got damaged ones")
        # The stride of a dimension of one element says nothing.
        strides = tuple(
            stride if length > 1 else 0 for length, stride in zip(shape, strides, strict=True)
        )
        tensor = Tensor(storage, offset, tuple(shape), strides, self.storages)
        last = offset + sum(
            (length - 1) * stride for length, stride in zip(shape, strides, strict=True)
        )
        if (tensor.size and last >= storage.size) or max(shape, default=0) > 2**40:
            raise ConvertError(
                f"{self.path}: a tensor of shape {tuple(shape)} lies outside its storage of "
                f"{storage.size:,} elements"
            )
        return tensor
