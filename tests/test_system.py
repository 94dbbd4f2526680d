"""Atomic files and folders, locks, disk space and processor cores."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_transformer import system
from keras_transformer.file_replacement import create_partial
from keras_transformer.system import FileError
from tests.support.disk import file_size_limit


def contents(folder: Path) -> dict[str, str]:
    """Return the contents of all files below a folder, including hidden ones."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


# Files


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with system.atomic_file(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert contents(tmp_path) == {"file": "new"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_a_file_stays_if_the_block_raises(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with system.atomic_file(path) as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert contents(tmp_path) == {"file": "old"}


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    create_partial(path).write_text("a longer text of a killed process")
    (tmp_path / ".writing.file").touch()
    system.write_text(path, "n\u00f6\n")
    assert contents(tmp_path) == {"file": "n\u00f6\n"}


def test_a_file_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with system.atomic_file(path) as partial:
        partial.write_text("first")
        with pytest.raises(FileError, match="file: another process is writing it"):
            system.write_text(path, "second")
        system.write_text(tmp_path / "other", "second")
    assert contents(tmp_path) == {"file": "first", "other": "second"}


def test_a_writer_waits_for_no_lock_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock file vanishes after it was opened: its lock would exclude nothing."""
    flock, hidden, calls = fcntl.flock, tmp_path / ".writing.file", []

    def removed_once(handle: int, operation: int) -> None:
        flock(handle, operation)
        if not calls:
            hidden.unlink()
        calls.append(handle)

    monkeypatch.setattr(fcntl, "flock", removed_once)
    with system.write_lock(tmp_path / "file"):
        assert len(calls) == 2
        assert hidden.exists()
    assert contents(tmp_path) == {}


def test_json_is_readable_unicode(tmp_path: Path) -> None:
    system.write_json(tmp_path / "file.json", {"text": "\u6211"})
    assert contents(tmp_path) == {"file.json": '{\n "text": "\u6211"\n}\n'}
    assert json.loads((tmp_path / "file.json").read_text()) == {"text": "\u6211"}


def test_json_keeps_names_that_are_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    system.write_json(tmp_path / "file.json", {name: [name]})
    assert json.loads((tmp_path / "file.json").read_text()) == {name: [name]}
    assert "caf\\udce9" in (tmp_path / "file.json").read_text()


def test_a_full_disk_keeps_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with file_size_limit(100), pytest.raises(FileError, match="file: cannot be written: .*large"):
        system.write_text(path, "x" * 200)
    assert contents(tmp_path) == {"file": "old"}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="none/file: cannot be written: .*No such file"):
        system.write_text(tmp_path / "none" / "file", "x")


def test_the_temporary_file_has_the_same_extension(tmp_path: Path) -> None:
    with system.atomic_file(tmp_path / "best.weights.h5") as partial:
        assert partial.name.endswith(".weights.h5")
        partial.touch()


# Folders


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_when_the_block_ends(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "new" / "folder"
    if exists:  # an empty one
        path.mkdir(parents=True)
    with system.atomic_folder(path) as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "file").write_text("x")
        assert not path.exists() or not system.user_entries(path)
    assert contents(tmp_path) == {"new/folder/sub/file": "x"}
    assert os.listdir(tmp_path / "new") == ["folder"]


def test_an_existing_folder_is_filled_from_inside(tmp_path: Path) -> None:
    """Its parent may not be writable; nothing is ever created there."""
    path = tmp_path / "folder"
    (path / "lost+found").mkdir(parents=True)
    (path / ".partial").mkdir()
    (path / ".partial" / "old").touch()  # of a killed process
    with system.atomic_folder(path, last="last") as partial:
        (partial / "last").write_text("1")
        (partial / "zz").write_text("2")
        assert os.listdir(tmp_path) == ["folder"]
        assert system.user_entries(path) == []
    assert contents(tmp_path) == {"folder/last": "1", "folder/zz": "2"}
    assert sorted(os.listdir(path)) == ["last", "lost+found", "zz"]


def test_a_linked_folder_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "last").write_text("old")
    (tmp_path / "link").symlink_to("disk")
    with system.atomic_folder(tmp_path / "link", replace=True, last="last") as partial:
        (partial / "last").write_text("new")
        (partial / "other").write_text("new")
    assert contents(tmp_path / "disk") == {"last": "new", "other": "new"}
    assert (tmp_path / "link").is_symlink()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("\u00e4")
    (tmp_path / "link").symlink_to("file")
    assert system.read_text(tmp_path / "link") == "\u00e4"
    for name in ("pipe", "loop", "none", ".", "../../../../../../../../dev/null"):
        with pytest.raises(OSError, match=r"."):
            system.read_bytes(tmp_path / name)


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_a_folder_has_the_usual_mode(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with system.atomic_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o777 & ~mask


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_no_folder_appears_if_the_block_raises(
    tmp_path: Path, error: type[BaseException], replace: bool
) -> None:
    def fail() -> None:
        with system.atomic_folder(tmp_path / "folder", replace) as partial:
            (partial / "file").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == []


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    partial = system.partial_folder(tmp_path / "folder")
    (partial / "sub").mkdir(parents=True)
    (partial / "sub" / "file").write_text("old")
    (partial / "link").symlink_to("nowhere")
    with system.atomic_folder(tmp_path / "folder") as folder:
        assert os.listdir(folder) == []
        (folder / "file").write_text("new")
    assert contents(tmp_path) == {"folder/file": "new"}


def test_a_folder_with_files_is_only_replaced_on_request(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "file").write_text("old")
    with (
        pytest.raises(FileError, match="folder: cannot be written: .*not empty"),
        system.atomic_folder(path) as partial,
    ):
        (partial / "other").write_text("new")
    assert contents(tmp_path) == {"folder/file": "old"}

    leftover = tmp_path / ".folder.previous"
    leftover.mkdir()
    with system.atomic_folder(path, replace=True) as partial:
        (partial / "other").write_text("new")
        assert contents(path) == {"file": "old"}
    assert contents(tmp_path) == {"folder/other": "new"}
    assert os.listdir(tmp_path) == ["folder"]


def test_a_replaced_folder_returns_if_the_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "file").write_text("old")
    rename = Path.rename

    def failing(source: Path, target: Path) -> Path:
        if source == system.partial_folder(path):
            raise OSError("failed")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", failing)
    with (
        pytest.raises(FileError, match="folder: cannot be written: failed"),
        system.atomic_folder(path, replace=True) as partial,
    ):
        (partial / "file").write_text("new")
    assert contents(tmp_path) == {"folder/file": "old"}


def test_a_full_disk_leaves_no_folder(tmp_path: Path) -> None:
    with (
        file_size_limit(100),
        pytest.raises(FileError, match="folder: cannot be written: .*large"),
        system.atomic_folder(tmp_path / "folder") as partial,
    ):
        (partial / "file").write_text("x" * 200)
    assert os.listdir(tmp_path) == []


def test_a_folder_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with system.atomic_folder(path) as partial:
        (partial / "file").write_text("first")
        with (
            pytest.raises(FileError, match="in use by another process"),
            system.atomic_folder(path),
        ):
            pass
    assert contents(tmp_path) == {"folder/file": "first"}


# Locks


def hold(path: Path, held: Callable[[], None], wait: Callable[[], None]) -> None:
    with system.lock(path):
        held()
        wait()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_lock_ends_with_its_process(tmp_path: Path, kind: str) -> None:
    path = tmp_path
    if kind == "file":
        path = tmp_path / "file"
        path.touch()
    context = multiprocessing.get_context("fork")
    held, free = context.Event(), context.Event()
    other = context.Process(target=hold, args=(path, held.set, free.wait))
    other.start()
    try:
        assert held.wait(30)
        with pytest.raises(FileError, match="in use by another process"), system.lock(path):
            pass
    finally:
        other.kill()
        other.join()
    with system.lock(path):
        pass


def test_a_file_system_without_locks_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(handle: int, operation: int) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with system.lock(tmp_path), system.lock(tmp_path):
        pass


def test_an_operating_system_without_locks_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # Windows
    with system.lock(tmp_path), system.atomic_folder(tmp_path / "folder") as partial:
        (partial / "file").write_text("new")
    assert contents(tmp_path) == {"folder/file": "new"}


# Addresses


@pytest.mark.parametrize(
    "address", ["gs://bucket/run", "s3://b/run", "hdfs://host:9000/run", "https://host/run"]
)
@pytest.mark.parametrize("kind", [str, Path])  # a Path has one slash only
def test_an_address_is_no_path(address: str, kind: Callable[[str], str | Path]) -> None:
    scheme = address.partition("/")[0]
    with pytest.raises(FileError, match=rf"^--run: expected a path .*; {scheme}// is not supp"):
        system.check_local(kind(address), "--run")
    with (
        pytest.raises(FileError, match="^expected a path on this machine"),
        system.atomic_folder(Path(address)),
    ):
        pass
    with pytest.raises(FileError, match="^expected a path"):
        system.write_text(Path(address), "x")


def test_a_file_address_needs_no_scheme() -> None:
    with pytest.raises(FileError, match="got file:///home/user/a.en; leave file:// out$"):
        system.check_local("file:///home/user/a.en")


@pytest.mark.parametrize(
    "path", ["runs/a", "/a:/b", "./gs:/b", "a b://c", "tfds:wmt/de-en:train", "builtin:phrasebook",
             "C:/runs", ""]
)  # fmt: skip
def test_other_names_are_paths(path: str) -> None:
    system.check_local(path)


# Disk space and cores


def test_too_little_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=12 * 2**20))
    system.check_space(tmp_path, 10 * 2**20)  # 10 MB, plus a tenth, plus 1 MB
    with pytest.raises(FileError, match=r"11\.0 MB are to be written, 12\.0 MB are free"):
        system.check_space(tmp_path, 11 * 2**20)


def test_a_limit_on_the_size_of_files_is_found(tmp_path: Path) -> None:
    """HDF5 would crash in the middle of the file."""
    with file_size_limit(3 * 2**20):
        system.check_space(tmp_path, 2**20)  # 1 MB, plus a tenth, plus 1 MB
        with pytest.raises(FileError, match=r"2\.0 MB are to be written: File too large"):
            system.check_space(tmp_path, 2 * 2**20)
    assert not os.listdir(tmp_path)


def test_cores_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    assert system.core_count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert system.core_count() == 1
