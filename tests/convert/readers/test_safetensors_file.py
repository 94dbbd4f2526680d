"""Safetensors: values by name; every offset is checked before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.safetensors_file import SafetensorsFile
from tests.support.foreign_models import write_safetensors, write_safetensors_parts


def entry(kind: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


def test_tensors_are_read_by_name(tmp_path: Path) -> None:
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([0.5, -2], np.float16),
        "empty": np.zeros((0, 4), np.float32),
        "scalar": np.array(7, np.float32),
    }
    write_safetensors(tmp_path / "m.safetensors", tensors)

    read = SafetensorsFile(tmp_path / "m.safetensors")

    assert list(read) == list(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(read[name], tensor)
        assert read[name].dtype == tensor.dtype


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    upper_halves = np.array([0x3F80, 0xC020], "<u2")  # 1 and -2.5 without the lower 16 bits
    entries = {"a": entry("BF16", (2,), (0, 4)), "__metadata__": {"format": "pt"}}
    write_safetensors_parts(tmp_path / "m", entries, upper_halves.tobytes())

    read = SafetensorsFile(tmp_path / "m")

    assert read["a"].tolist() == [1.0, -2.5]
    assert read["a"].dtype == np.float32


@pytest.mark.parametrize(
    ("entries", "data", "message"),
    [
        ({"a": entry(offsets=(0, 12))}, b"\0" * 12, "a: expected 8 bytes for F32"),
        ({"a": entry()}, b"\0" * 4, "cut short"),
        ({"a": entry()}, b"\0" * 12, "cut short"),
        ({"a": entry(), "b": entry()}, b"\0" * 8, "got a gap"),
        ({"a": entry(offsets=(4, 12))}, b"\0" * 12, "got a gap"),
        ({"a": entry(shape=(-1, -2))}, b"\0" * 8, "expected type, shape and offsets"),
        ({"a": entry(shape=(True, 2))}, b"\0" * 8, "expected type, shape and offsets"),
        ({"a": entry(kind="F8_E4M3")}, b"\0" * 8, "got F8_E4M3"),
        ({"a": 5}, b"\0" * 8, "expected type, shape and offsets"),
        ({"a": entry(shape=(2**40,), offsets=(0, 2**42))}, b"", "bytes of weights"),
        ([], b"", "expected a JSON object"),
    ],
)
def test_wrong_headers_are_refused(tmp_path: Path, entries: Any, data: bytes, message: str) -> None:
    write_safetensors_parts(tmp_path / "m", entries, data)
    with pytest.raises(ConvertError, match=message):
        SafetensorsFile(tmp_path / "m")


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 8, b"\x10" + b"\0" * 7 + b"{"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ConvertError, match="expected"):
        SafetensorsFile(tmp_path / "m")


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    header = b'{"a": {"dtype": "F32"}, "a": {"dtype": "F32"}}'
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ConvertError, match="'a' is there twice"):
        SafetensorsFile(tmp_path / "m")
