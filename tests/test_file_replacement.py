"""Temporary files and their way to the name that the user chose."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

import pytest

from keras_transformer import system
from keras_transformer.file_replacement import create_partial, remove_leftovers
from keras_transformer.system import FileError

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def refuse(number: int) -> object:
    """Return a function that fails with an error number."""

    def fail(*arguments: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the text "old"."""
    (tmp_path / "file").write_text("old")
    return tmp_path / "file"


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_the_mode_of_a_file_stays_and_its_contents_stay_private(path: Path, mode: int) -> None:
    path.chmod(mode)
    with system.atomic_file(path) as partial:
        assert partial.stat().st_mode & 0o777 == mode
        partial.write_text("new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_usual_mode(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        system.write_text(tmp_path / "file", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask


@AS_ROOT
def test_the_owner_of_a_file_stays(path: Path) -> None:
    os.chown(path, 1234, 2345)
    path.chmod(0o640)
    system.write_text(path, "new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 2345, 0o640)
    assert path.read_text() == "new"


@AS_ROOT
def test_where_the_owner_would_change_the_contents_are_copied(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(path, 1234, 2345)
    before = path.stat()
    monkeypatch.setattr(os, "chown", refuse(errno.EPERM))
    system.write_text(path, "new")
    status = path.stat()
    assert (status.st_ino, status.st_uid) == (before.st_ino, 1234)
    assert path.read_text() == "new"
    assert os.listdir(path.parent) == ["file"]


def test_where_a_rename_fails_the_contents_are_copied(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a single file mounted into a container."""
    before = path.stat().st_ino
    monkeypatch.setattr(os, "replace", refuse(errno.EBUSY))
    system.write_text(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_ino == before
    assert os.listdir(path.parent) == ["file"]


def test_where_a_copy_fails_too_the_contents_are_kept_and_named(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write() -> None:
        with system.atomic_file(path) as partial:
            partial.write_text("hours of work")
            (path / "sub").mkdir(parents=True)  # another program takes the name

    with pytest.raises(FileError, match="file: cannot be written: Is a directory;") as caught:
        write()
    found = re.search("; the contents are in (.+)$", str(caught.value))
    assert found
    kept = Path(found[1])
    assert kept.read_text() == "hours of work"
    assert not kept.name.startswith(".")
    shutil.rmtree(path)
    system.write_text(path, "new")
    assert kept.read_text() == "hours of work"


def test_a_writable_file_in_a_folder_that_is_not_writable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No temporary file beside it, and no lock file."""
    really, before = os.open, path.stat().st_ino

    def read_only(name: Path, flags: int, *rest: int) -> int:
        if flags & os.O_CREAT and Path(name).parent == path.parent:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return really(name, flags, *rest)

    def refuse_rename(source: object, target: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        patched.setattr(os, "replace", refuse_rename)
        with system.atomic_file(path) as partial:
            assert partial.parent != path.parent
            partial.write_text("new")
            with pytest.raises(FileError, match="in use by another process"):
                system.write_text(path, "other")
    assert not partial.exists()
    assert path.read_text() == "new"
    assert path.stat().st_ino == before
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        with pytest.raises(FileError, match="none: cannot be written: Read-only file system"):
            system.write_text(path.with_name("none"), "x")


def test_a_read_only_file_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # root may write everything
    with pytest.raises(FileError, match="file: cannot be written: Permission denied"):
        system.write_text(path, "new")
    assert path.read_text() == "old"


def test_files_of_the_user_with_similar_names_stay(tmp_path: Path) -> None:
    others = (".partial.file", ".file.partial", ".writing.file", ".partial.0123.file", "kept")
    for name in others:
        (tmp_path / name).write_text(name)
    system.write_text(tmp_path / "file", "new")
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {
        **{name: name for name in others},
        "file": "new",
    }


def test_leftovers_of_a_file_are_removed_and_no_others(tmp_path: Path) -> None:
    create_partial(tmp_path / "a*b")
    others = {create_partial(tmp_path / name) for name in ("x.a*b", "acb", "a*b.x")}
    remove_leftovers(tmp_path / "a*b")
    assert set(tmp_path.iterdir()) == others


@pytest.mark.parametrize("name", ["n" * 251 + ".h5", "\u6211" * 84 + ".h5"])
def test_the_longest_names_can_be_written(tmp_path: Path, name: str) -> None:
    with system.atomic_file(tmp_path / name) as partial:
        assert partial.name.endswith(".h5")
        partial.write_text("new")
    assert os.listdir(tmp_path) == [name]


def test_long_names_with_the_same_end_are_two_files(tmp_path: Path) -> None:
    first, second = ("a" + "n" * 240, "b" + "n" * 240)
    with system.atomic_file(tmp_path / first) as one, system.atomic_file(tmp_path / second) as two:
        one.write_text("1")
        two.write_text("2")
    assert [(tmp_path / name).read_text() for name in (first, second)] == ["1", "2"]
