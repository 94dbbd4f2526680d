"""NumPy archives: no pickle, and no more bytes than the file promises and the limits allow."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import npz_file
from keras_transformer.convert.readers.npz_file import NpzFile


def array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


def write(path: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def test_arrays_are_read_by_name(tmp_path: Path) -> None:
    arrays = {
        "special:model.yml": np.frombuffer(b"a: 1\0", np.int8),
        "W": np.arange(6, dtype=np.float32).reshape(2, 3),
        "transposed": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
        "scalar": np.array(7, np.float16),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "m.npz", **arrays)
        read = NpzFile(tmp_path / "m.npz")
        assert set(read) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name], array)


def test_a_pickle_is_refused_and_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", a=np.array([{}], object))
    with pytest.raises(ConvertError, match="a: expected numbers, got the type object"):
        NpzFile(tmp_path / "m.npz")


def test_an_archive_that_grows_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = np.zeros(1000, np.float32)  # 4,000 bytes, compressed to 200
    np.savez_compressed(tmp_path / "m.npz", a=zeros)
    assert not NpzFile(tmp_path / "m.npz")["a"].any()
    monkeypatch.setattr(npz_file, "_FREE_BYTES", 1_000)
    monkeypatch.setattr(npz_file, "_MAX_GROWTH", 5)
    with pytest.raises(ConvertError, match="expected at most 5 times"):
        NpzFile(tmp_path / "m.npz")


def test_a_header_that_promises_another_size_is_refused(tmp_path: Path) -> None:
    data = array_bytes(np.zeros(4, np.float32))
    for wrong in (data[:-4], data + b"\0" * 4, data.replace(b"(4,)", b"(9,)")):
        write(tmp_path / "m.npz", {"a.npy": wrong})
        with pytest.raises(ConvertError, match="a: expected .* bytes for the shape"):
            NpzFile(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.npy": b""}, "a: expected an array"),
        ({"a.npy": b"\x93NUMPY\x01\x00\x05\x00{'a':"}, "a: expected an array"),
        ({"a.npy": b"\x93NUMPY\x03\x00\x05\x00{'a':"}, "version 1 or 2"),
        ({"a.txt": b"text"}, "expected arrays, each once, got 'a.txt'"),
        ({"a.npy": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 70_000}, "a: expected an array"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    write(tmp_path / "m.npz", files)
    with pytest.raises(ConvertError, match=message):
        NpzFile(tmp_path / "m.npz")


def test_damage_is_found_when_an_array_is_read(tmp_path: Path) -> None:
    array = np.arange(10_000, dtype=np.float32)
    np.savez(tmp_path / "m.npz", a=array)
    data = bytearray((tmp_path / "m.npz").read_bytes())
    data[data.index(array.tobytes()) + 30_000] ^= 0xFF
    (tmp_path / "m.npz").write_bytes(data)
    with pytest.raises(ConvertError, match="a: cannot be read: Bad CRC"):
        NpzFile(tmp_path / "m.npz")["a"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + b"\xff" * 18])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.npz").write_bytes(content)
    with pytest.raises(ConvertError, match="expected"):
        NpzFile(tmp_path / "m.npz")
