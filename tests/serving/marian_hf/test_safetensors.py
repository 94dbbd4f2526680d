"""Safetensors files, read by the reader of ``convert``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from keras_transformer.convert.readers.safetensors_file import SafetensorsFile
from keras_transformer.serving.marian_hf.safetensors import write_safetensors


def test_tensors_come_back(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    tensors = {
        "b": random.normal(size=(3, 5)).astype(np.float16),  # 30 bytes: no multiple of four
        "a": random.normal(size=(2, 3)).astype(np.float32).T,  # not contiguous
        "empty": np.zeros((0, 4), np.float32),
    }
    write_safetensors(tmp_path / "model.safetensors", tensors)
    found = SafetensorsFile(tmp_path / "model.safetensors")
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        np.testing.assert_array_equal(found[name], tensor)


def test_the_header_is_that_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"x": np.array([1.5], np.float32)})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header = data[8 : 8 + length].decode().rstrip()
    assert header == (
        '{"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    )
    assert data[8 + length :] == b"\x00\x00\xc0\x3f"  # 1.5, little-endian
