"""Version numbers, and version folders that appear only when they are complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keras_transformer import system
from keras_transformer.server.settings import ServeError, Settings
from keras_transformer.serving.settings import MAX_VERSION, ExportError
from keras_transformer.serving.version_folder import (
    is_model_name,
    model_name,
    new_version,
    next_version,
    version_number,
)


@pytest.fixture
def folder(tmp_path):
    """A model's folder with versions 1 and 7 and other folders."""
    for name in ("1", "7", "2.bad", ".3.partial", "²", "9" * 25):
        (tmp_path / "m" / name).mkdir(parents=True)
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("1", 1),
        ("007", 7),
        ("9" * 25, int("9" * 25)),
        ("2.bad", None),
        (".3.partial", None),
        ("-1", None),
        ("²", None),
    ],
)
def test_names_of_versions(name, number) -> None:
    assert version_number(name) == number


def test_next_number(folder, tmp_path) -> None:
    assert next_version(folder, None) == 8
    assert next_version(folder, 3) == 3
    assert next_version(folder, MAX_VERSION) == MAX_VERSION
    assert next_version(tmp_path / "new" / "m", None) == 1
    assert not (tmp_path / "new").exists()


def test_existing_version_is_refused(folder) -> None:
    with pytest.raises(ExportError, match=r"m/7 is there already .* --version out for version 8"):
        next_version(folder, 7)


def test_no_number_is_left(folder) -> None:
    (folder / str(MAX_VERSION)).mkdir()
    with pytest.raises(ExportError, match="no version can be greater"):
        next_version(folder, None)


def test_paths_that_are_no_writable_folder_are_refused(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match=r"file: expected a folder, found something else there"):
        next_version(tmp_path / "file", None)
    with pytest.raises(ExportError, match=r"m: expected a folder, found .*file, which is not a"):
        next_version(tmp_path / "file" / "m", None)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # also for root
    with pytest.raises(ExportError, match=rf"no permission to write in {tmp_path}$"):
        next_version(tmp_path / "new" / "m", None)


def test_a_link_to_nothing_is_refused_before_the_work(tmp_path) -> None:
    (tmp_path / "m").symlink_to("none")
    (tmp_path / "loop").symlink_to("loop")
    for place, link in (("m", "m"), ("m/new", "m"), ("loop", "loop")):
        with pytest.raises(ExportError, match=rf"found {tmp_path / link}, a link to nothing"):
            next_version(tmp_path / place, None)


def test_a_run_folder_is_refused(tmp_path) -> None:
    (tmp_path / "config.yaml").touch()
    with pytest.raises(ExportError, match="expected a folder for exports, found a run folder"):
        next_version(tmp_path, None)


def test_versions_in_a_linked_folder_of_a_volume(tmp_path) -> None:
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    (tmp_path / "m").symlink_to("disk")
    with new_version(tmp_path / "m", None) as (place, _):
        (place / "model").touch()
    assert sorted(os.listdir(tmp_path / "disk")) == ["1", "lost+found"]


def test_a_half_written_version_has_no_number(folder) -> None:
    with new_version(folder, None) as (place, number):
        (place / "model").write_text("model")
        assert number == 8
        assert place.parent == folder
        numbers = [version_number(path.name) for path in folder.iterdir()]
        assert 8 not in numbers
    assert (folder / "8" / "model").read_text() == "model"


def test_leftovers_of_killed_exports_are_removed(folder) -> None:
    (folder / ".3.partial" / "variables").mkdir()
    with new_version(folder, None):
        pass
    names = {path.name for path in folder.iterdir()}
    assert names == {"1", "7", "8", "2.bad", "²", "9" * 25}


def test_failure_leaves_nothing(folder, tmp_path) -> None:
    before = {path.name for path in folder.iterdir()} - {".3.partial"}

    def fail(place) -> None:
        with new_version(place, None) as (written, _):
            (written / "model").touch()
            raise ValueError("no")

    for place in (folder, tmp_path / "new"):
        with pytest.raises(ValueError, match="no"):
            fail(place)
    assert {path.name for path in folder.iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_one_export_at_a_time(folder) -> None:
    with (
        system.lock(folder),
        pytest.raises(system.FileError, match="another process"),
        new_version(folder, 20),
    ):
        pass
    assert (folder / ".3.partial").exists()  # it may be the other export's


NAMES = ["en-de", "m", "2", ".hidden", "模型", "é", "a=b&c", "a'b"]
BAD_NAMES = ["my model", "a:b", "a\tb", "a\u2028b", "a?b", "a#b", "a%20b", "a\x7f", "caf\udce9"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_models(name, tmp_path) -> None:
    assert model_name(tmp_path / name) == name


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_cannot_be_served(name, tmp_path) -> None:
    with pytest.raises(ExportError, match=r"the folder's name is the model's; expected a name wit"):
        model_name(tmp_path / name)


def test_the_name_is_that_of_the_resolved_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "en-de").mkdir()
    monkeypatch.chdir(tmp_path / "en-de")
    assert model_name(Path(".")) == "en-de"
    with pytest.raises(ExportError, match="got ''"):
        model_name(Path("/"))


@pytest.mark.parametrize("name", [*NAMES, *BAD_NAMES, "", "a/b"])
def test_the_server_has_the_same_rule(name) -> None:
    if is_model_name(name) or not name:  # "": the folder's name
        assert Settings(name=name).name == name
    else:
        with pytest.raises(ServeError, match="name: expected a name without spaces"):
            Settings(name=name)
