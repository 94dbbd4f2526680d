"""CTranslate2's model.bin, written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.ctranslate2_file import CTranslate2File
from tests.support.foreign_networks import ctranslate2_bytes


def test_types_and_aliases(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    values = {
        "a": np.array([[1.5, 2], [3, 4], [5, 6]], np.float32),
        "b": np.array([1, -2], np.int8),
        "c": np.array([0.5], np.float16),
        "d": np.array([0x3F80, 0xC000], np.uint16),  # bfloat16: 1 and -2
        "e": np.array(7, np.int16),
    }
    path.write_bytes(ctranslate2_bytes(values, {"z": "a"}))
    file = CTranslate2File(path)
    assert (file.name, file.version, file.revision) == ("TransformerSpec", 6, 7)
    assert list(file) == ["a", "b", "c", "d", "e", "z"]
    for name in ("a", "b", "c", "e"):
        assert file[name].dtype == values[name].dtype
        assert np.array_equal(file[name], values[name])
    assert file["d"].tolist() == [1, -2]
    assert np.array_equal(file["z"], values["a"])


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    whole = ctranslate2_bytes({"a": np.ones((2, 3), np.float32)}, {"z": "a"})
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ConvertError):
            CTranslate2File(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ConvertError, match="got 1 more bytes"):
        CTranslate2File(path)
    path.write_bytes(whole.replace(b"\x06\0\0\0", b"\x63\0\0\0", 1))
    with pytest.raises(ConvertError, match="of version 2 to 6, got 99"):
        CTranslate2File(path)
    path.write_bytes(whole.replace(b"z\0\x02\0a", b"z\0\x02\0b"))
    with pytest.raises(ConvertError, match="expected an alias of a variable"):
        CTranslate2File(path)
