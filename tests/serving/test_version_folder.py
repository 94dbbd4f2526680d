"""Which number the next version gets, and where none can be written."""

from __future__ import annotations

import os

import pytest

from keras_transformer.serving.settings import MAX_VERSION, ExportError
from keras_transformer.serving.version_folder import next_version, version_number


@pytest.fixture
def folder(tmp_path):
    """A model's folder with versions 1 and 7, and what is none."""
    for name in ("1", "7", "2.bad", ".export-x", "²", "9" * 25):
        (tmp_path / "m" / name).mkdir(parents=True)
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("name", "number"),
    [("1", 1), ("007", 7), ("9" * 25, int("9" * 25)), ("2.bad", None), ("-1", None), ("²", None)],
)
def test_names_of_versions(name, number) -> None:
    assert version_number(name) == number


def test_the_next_number(folder, tmp_path) -> None:
    assert next_version(folder, None) == 8
    assert next_version(folder, 3) == 3
    assert next_version(folder, MAX_VERSION) == MAX_VERSION
    assert next_version(tmp_path / "new" / "m", None) == 1
    assert not (tmp_path / "new").exists()


def test_a_version_that_is_there(folder) -> None:
    with pytest.raises(ExportError, match=r"m/7 is there already .* --version out for version 8"):
        next_version(folder, 7)


def test_no_number_is_left(folder) -> None:
    (folder / str(MAX_VERSION)).mkdir()
    with pytest.raises(ExportError, match="no version can be greater"):
        next_version(folder, None)


def test_places_that_are_no_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match=r"file: expected a folder, found something else there"):
        next_version(tmp_path / "file", None)
    with pytest.raises(ExportError, match=r"m: expected a folder, found .*file, which is none"):
        next_version(tmp_path / "file" / "m", None)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # whoever runs the tests
    with pytest.raises(ExportError, match=rf"no permission to write in {tmp_path}$"):
        next_version(tmp_path / "new" / "m", None)
