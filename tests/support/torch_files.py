"""Files of PyTorch written without PyTorch, in its zip form and in the older one."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {"f4": "Float", "f2": "Half", "f8": "Double", "i8": "Long", "u2": "BFloat16", "u1": "Byte"}


class Name:
    """A name that the pickle refers to, without an import of its module."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *_: Any) -> None:
        """Make it acceptable as the function of a call."""

    def __reduce__(self) -> str:
        return self.name


class Call:
    """An object that the pickle would make by a call, with a state."""

    def __init__(self, name: Name, *arguments: Any, state: Any = None) -> None:
        self.value = (name, arguments) if state is None else (name, arguments, state)

    def __reduce__(self) -> Any:
        return self.value


class Stored:
    """A storage of numbers; uint16 stands for bfloat16."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values.reshape(-1)


class View:
    """A tensor: a view of a storage."""

    def __init__(
        self, storage: Stored, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.arguments = (storage, offset, shape, strides, False, OrderedDict())

    def __reduce__(self) -> Any:
        return Name("torch._utils", "_rebuild_tensor_v2"), self.arguments


def tensor(values: Any, dtype: Any = np.float32) -> View:
    """Return a contiguous tensor with a storage of its own."""
    array = np.ascontiguousarray(values, dtype)
    strides = tuple(step // array.itemsize for step in array.strides)
    return View(Stored(array), 0, array.shape, strides)


def namespace(**values: Any) -> Call:
    """Return an argparse.Namespace."""
    return Call(Name("argparse", "Namespace"), state=values)


class _Pickler(pickle._Pickler):  # the one in Python: names are written unchecked
    def __init__(self, file: io.BytesIO, storages: dict[str, Stored], old: bool) -> None:
        super().__init__(file, protocol=2)
        self.storages = storages
        self.old = old

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if isinstance(obj, Name):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
            self.memoize(obj)
        else:
            super().save_global(obj, name)

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Stored):
            return None
        key = next((key for key, value in self.storages.items() if value is obj), None)
        if key is None:
            key = str(len(self.storages))
            self.storages[key] = obj
        kind = Name("torch", TYPES[obj.values.dtype.str[1:]] + "Storage")
        return ("storage", kind, key, "cpu", len(obj.values), *((None,) if self.old else ()))


def pickled(value: Any, storages: dict[str, Stored], old: bool = False) -> bytes:
    """Return the pickle of a value as torch.save writes it; its storages are added."""
    file = io.BytesIO()
    _Pickler(file, storages, old).dump(value)
    return file.getvalue()


def save(value: Any, path: Path, byte_order: str = "little", compression: int = 0) -> None:
    """Write the zip form."""
    storages: dict[str, Stored] = {}
    data = pickled(value, storages)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/byteorder", byte_order)
        for key, storage in storages.items():
            archive.writestr(f"archive/data/{key}", storage.values.tobytes())
        archive.writestr("archive/version", "3\n")


def save_old(value: Any, path: Path, little: bool = True) -> None:
    """Write the form of PyTorch before 1.6."""
    storages: dict[str, Stored] = {}
    data = pickled(value, storages, old=True)
    facts = {"protocol_version": 1001, "little_endian": little, "type_sizes": {"int": 4}}
    start = [0x1950A86A20F9469CFC6C, 1001, facts]
    with path.open("wb") as file:
        for item in start:
            file.write(pickle.dumps(item, protocol=2))
        file.write(data + pickle.dumps(list(storages), protocol=2))
        for storage in storages.values():
            file.write(len(storage.values).to_bytes(8, "little") + storage.values.tobytes())


def state(values: Mapping[str, np.ndarray]) -> OrderedDict[str, View]:
    """Return a state dictionary of tensors in the types of the arrays."""
    return OrderedDict((name, tensor(value, value.dtype)) for name, value in values.items())
