"""PyTorch's files without PyTorch: weights and plain data, in the zip form and the older one.

Both forms hold a pickle, whose tensors refer to storages by persistent ids. In the zip form
(PyTorch 1.6 and later) each storage is a member ``NAME/data/KEY``, uncompressed; in the older form
they follow the pickles, each behind its number of elements. Tensors are read when they are looked
up, so the state of an optimizer costs nothing.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer import system
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.torch_pickle import Storages, Tensor, TorchPickles

# A pickle holds names, shapes and settings; the weights lie outside it.
MAX_PICKLE_BYTES = 1 << 28
MAX_FILE_BYTES = 1 << 36
_OLD_MAGIC = 0x1950A86A20F9469CFC6C
_OLD_PROTOCOL = 1001


class TorchTensors(Mapping[str, np.ndarray]):
    """The tensors of a state dictionary, read when they are looked up.

    Args:
        values: The state dictionary of a `load`; entries that are no tensors are left out.
    """

    def __init__(self, values: Mapping[Any, Any]) -> None:
        self._values = {
            str(name): value for name, value in values.items() if isinstance(value, Tensor)
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self._values[name].read()

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def is_torch_file(path: Path) -> bool:
    """Return whether a file looks like one of PyTorch, by its first bytes."""
    try:
        system.check_regular(path)
        with path.open("rb") as file:
            start = file.read(16)
    except OSError:
        return False
    # The older form begins with the pickled magic number: protocol 2, a long of 10 bytes.
    return start.startswith((b"PK\x03\x04", b"\x80\x02\x8a\n" + _OLD_MAGIC.to_bytes(10, "little")))


def load(path: Path, records: Callable[[str], bool] = lambda name: False) -> Any:
    """Read a file of PyTorch.

    Args:
        path: The file.
        records: Return whether objects of a class may stand in the file as plain `Record`s,
            beside argparse.Namespace and a few classes of Python and NumPy.

    Returns:
        What was saved: dictionaries, lists, texts, numbers, `Tensor`s and `Record`s.

    Raises:
        ConvertError: It is not such a file, damaged, too large, big-endian, or refers to anything
            else than tensors and plain data.
    """
    try:
        system.check_regular(path)
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ConvertError(f"{path}: expected at most {MAX_FILE_BYTES:,} bytes, got {size:,}")
        if zipfile.is_zipfile(path):
            return _load_zip(path, records)
        return _load_old(path, size, records)
    except OSError as error:
        raise ConvertError(f"{path}: cannot be read ({error.strerror})") from error


def _load_zip(path: Path, records: Callable[[str], bool]) -> Any:
    pickles = TorchPickles(path, records)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(names) != 1:
                raise ConvertError(
                    f"{path}: expected a file of torch.save with one data.pkl, got another zip file"
                )
            folder = names[0].removesuffix("data.pkl")
            _check_byte_order(path, archive, folder)
            data = _member(path, archive, names[0], MAX_PICKLE_BYTES)
            value = pickles.read(io.BytesIO(data))
            for key in pickles.storages.all:
                _place_member(path, archive, f"{folder}data/{key}", key, pickles.storages)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, KeyError) as error:
        raise ConvertError(f"{path}: expected a file of torch.save, got {error}") from error
    return value


def _check_byte_order(path: Path, archive: zipfile.ZipFile, folder: str) -> None:
    name = f"{folder}byteorder"
    if name in archive.namelist():
        order = _member(path, archive, name, 64)
        if order.strip() != b"little":
            raise ConvertError(
                f"{path}: expected numbers in little-endian order, got {order[:20]!r}; save the "
                "model on a little-endian machine"
            )


def _member(path: Path, archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return a member's bytes; the limit holds for compressed ones too."""
    with archive.open(name) as member:
        data = member.read(limit + 1)
    if len(data) > limit:
        raise ConvertError(f"{path}: {name}: expected at most {limit:,} bytes")
    return data


def _place_member(
    path: Path, archive: zipfile.ZipFile, name: str, key: str, storages: Storages
) -> None:
    """Find the bytes of a member in the file."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ConvertError(f"{path}: {name}: expected it uncompressed, as torch.save writes it")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)
    if not header.startswith(b"PK\x03\x04"):
        raise ConvertError(f"{path}: {name}: expected a zip member, got damaged data")
    skipped = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    start = info.header_offset + len(header) + skipped
    if start + info.file_size > path.stat().st_size:
        raise ConvertError(f"{path}: {name}: the file ends before it (a half-copied file?)")
    storages.place(key, start, info.file_size)


def _load_old(path: Path, size: int, records: Callable[[str], bool]) -> Any:
    """Read the form of PyTorch before 1.6: pickles, then the storages."""
    with path.open("rb") as file:
        stream = io.BytesIO(file.read(MAX_PICKLE_BYTES))
    pickles = TorchPickles(path, records)
    if pickles.read(stream) != _OLD_MAGIC:
        raise ConvertError(f"{path}: expected a file of torch.save, got another pickle")
    protocol, facts, value, keys = (pickles.read(stream) for _ in range(4))
    if protocol != _OLD_PROTOCOL or not isinstance(facts, dict) or not isinstance(keys, list):
        raise ConvertError(f"{path}: expected a file of torch.save, got another version")
    if facts.get("little_endian") is not True:
        raise ConvertError(
            f"{path}: expected numbers in little-endian order, got big-endian ones; save the model "
            "on a little-endian machine"
        )
    _place_old(path, size, stream.tell(), keys, pickles.storages)
    return value


def _place_old(path: Path, size: int, position: int, keys: list[Any], storages: Storages) -> None:
    """Find the storages of the older form: for each key its size in 8 bytes, then its elements."""
    with path.open("rb") as file:
        for key in map(str, keys):
            if key not in storages.all:
                raise ConvertError(f"{path}: expected storages of its tensors, got {key[:40]}")
            storage = storages.all[key]
            width = storage.stored.itemsize
            file.seek(position)
            elements = int.from_bytes(file.read(8), "little")
            position += 8
            if elements != storage.size or position + elements * width > size:
                raise ConvertError(
                    f"{path}: storage {key}: expected {storage.size:,} elements, got another "
                    "number (a half-copied file?)"
                )
            storages.place(key, position, elements * width)
            position += elements * width
