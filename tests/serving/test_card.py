"""The model card: its format, and the files that belong to it."""

from __future__ import annotations

import pytest

from keras_transformer.formats import FormatError
from keras_transformer.serving import card
from keras_transformer.serving.settings import ExportError


@pytest.fixture
def version(tmp_path):
    """A version folder with a graph and the index of its weights."""
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "variables" / "variables.index").write_bytes(b"index")
    (tmp_path / "variables" / "variables.data").write_bytes(b"data")
    card.write(tmp_path, {"format_number": 1, "sha256": card.checksums(tmp_path)})
    return tmp_path


def test_checksums_by_hand(version) -> None:
    found = card.checksums(version)
    assert list(found) == ["saved_model.pb", "variables/variables.index"]
    # printf index | sha256sum
    assert found["variables/variables.index"] == (
        "1bc04b5291c26a46d918139138b992d2de976d6851d0893b0476b85bfbdfc6e6"
    )
    assert card.read(version)["sha256"] == found


@pytest.mark.parametrize("name", card.CHECKED)
def test_files_of_another_export_are_refused(version, name) -> None:
    (version / name).write_bytes(b"other")
    with pytest.raises(ExportError, match=rf"{name}: damaged, or of another export than"):
        card.read(version)


def test_a_later_format_is_refused(version) -> None:
    values = {"format_number": 2, "versions": {"keras-translate": "0.4"}}
    card.write(version, values)
    with pytest.raises(FormatError, match=r"export\.json: .* install keras-translate 0.4 or later"):
        card.read(version)


@pytest.mark.parametrize("values", [None, {}, {"name": "m"}])
def test_no_card_and_no_number_are_the_first_format(version, values) -> None:
    (version / "export.json").unlink()
    if values is not None:
        card.write(version, values)
    assert card.read(version) == (values or {})


@pytest.mark.parametrize("text", ["", "[1]", '{"a":'])
def test_a_damaged_card_is_refused(version, text) -> None:
    (version / "export.json").write_text(text)
    with pytest.raises(ExportError, match=r"export\.json: "):
        card.read(version)
