"""JSON vocabularies: no key twice, ids complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import limits
from keras_transformer.convert.readers.json_file import read_object, read_vocabulary


def test_ids_by_token(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text('\ufeff{"b": 1, "▁a": 0}', encoding="utf-8")
    assert list(read_vocabulary(tmp_path / "v.json")) == ["▁a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 0, "a": 1}', "'a' is there twice"),
        ('{"a": 0, "b": 2}', "expected an id from 0 to 1"),
        ('{"a": true}', "expected a whole number, got True"),
        ('{"a": 0.0}', "expected a whole number, got 0.0"),
        ('["a"]', "expected a JSON object, got list"),
        ("{", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "v.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConvertError, match=message):
        read_vocabulary(tmp_path / "v.json")


def test_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConvertError, match="expected UTF-8 text"):
        read_object(path)
    with path.open("wb") as file:
        file.truncate(limits.MAX_TEXT_BYTES + 1)
    with pytest.raises(ConvertError, match="expected 1 to 67,108,864 bytes, got 67,108,865"):
        read_object(path)
    with pytest.raises(ConvertError, match="cannot be read"):
        read_object(tmp_path / "missing.json")
    with pytest.raises(ConvertError, match="cannot be read"):
        read_object(tmp_path)
