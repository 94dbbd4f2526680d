"""Paths for libraries that accept names in UTF-8 only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from keras_transformer.utf8_paths import utf8_path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="file systems refuse such names")


def test_a_path_in_utf_8_stays(tmp_path: Path) -> None:
    assert utf8_path(tmp_path / "\u6211" / "none") == tmp_path / "\u6211" / "none"
    assert utf8_path(Path("relative")) == Path("relative")


def test_another_path_leads_to_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9") / "run"
    folder.mkdir(parents=True)
    path = utf8_path(folder / "new" / "file")
    str(path).encode("utf-8")
    path.parent.mkdir()
    path.write_text("x")
    assert (folder / "new" / "file").read_text() == "x"
    assert utf8_path(folder).samefile(folder)


def test_a_folder_is_opened_once_and_again_where_it_was_replaced(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    assert utf8_path(folder) == utf8_path(folder)
    folder.rename(tmp_path / "old")
    folder.mkdir()
    assert utf8_path(folder).samefile(folder)
