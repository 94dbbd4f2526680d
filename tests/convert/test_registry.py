"""Recognition of formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from keras_transformer.convert import registry
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.settings import ConvertSettings
from tests.support.foreign_models import write_hf_folder, write_json, write_opus_folder


def test_folders_and_files_are_recognised(tmp_path: Path) -> None:
    write_opus_folder(tmp_path / "opus")
    write_hf_folder(tmp_path / "hf")
    assert registry.find(tmp_path / "opus").NAME == "marian"
    assert registry.find(tmp_path / "opus" / "model.npz").NAME == "marian"
    assert registry.find(tmp_path / "hf").NAME == "hf_marian"


def test_a_folder_of_two_formats_needs_from(tmp_path: Path) -> None:
    write_opus_folder(tmp_path)
    write_hf_folder(tmp_path)
    with pytest.raises(ConvertError, match="found several; add --from marian or --from hf_marian"):
        registry.find(tmp_path)
    assert registry.find(tmp_path, "hf_marian").NAME == "hf_marian"


def test_unknown_sources_are_described(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="an empty folder. Formats: marian"):
        registry.find(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / ".hidden").write_text("text")
    (tmp_path / "b").mkdir()
    with pytest.raises(ConvertError, match=r"found a\.txt, b/\. Formats"):
        registry.find(tmp_path)
    with pytest.raises(ConvertError, match="a file of 4 bytes .if it belongs to a folder"):
        registry.find(tmp_path / "a.txt")
    (tmp_path / "opus.zip").write_bytes(b"PK")
    with pytest.raises(ConvertError, match="an archive: unpack it"):
        registry.find(tmp_path / "opus.zip")
    write_json(tmp_path / "config.json", {"model_type": "mbart"})
    with pytest.raises(ConvertError, match="found a config.json of model_type mbart"):
        registry.find(tmp_path)
    with pytest.raises(ConvertError, match="expected a file or folder of a model, found none"):
        registry.find(tmp_path / "missing")
    with pytest.raises(ConvertError, match="unknown format marain; did you mean marian"):
        registry.find(tmp_path, "marain")


def test_options_of_other_formats_are_refused() -> None:
    hf_marian = registry.load("hf_marian")
    registry.check_options(hf_marian, ConvertSettings(position_rates="paper", dtype="float16"))
    with pytest.raises(ConvertError, match="--source_vocabulary: expected a source of the format"):
        registry.check_options(hf_marian, ConvertSettings(source_vocabulary="v.yml"))


def test_each_option_belongs_to_a_format() -> None:
    used = {option for name in registry.NAMES for option in registry.load(name).OPTIONS}
    assert used <= set(ConvertSettings.__dataclass_fields__)
