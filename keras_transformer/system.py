"""Atomic files and folders, locks, disk space and processor cores."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError

# Names that a file system puts into the root of a volume.
_VOLUME_NAMES = {"lost+found", ".snapshot"}
# Hidden folder inside an existing folder that `atomic_folder` fills.
_PARTIAL = ".partial"


class FileError(UserError):
    """A path that is locked, full or not writable."""


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file or folder until the block or the process ends.

    Raises:
        FileError: Another process holds the lock.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"{path}: in use by another process") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


def partial_path(path: Path) -> Path:
    """Return the hidden path of an incomplete folder."""
    return path.with_name(f".{path.name}.partial")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, whose file replaces ``path`` if the block succeeds.

    Raises:
        FileError: The file cannot be written; the earlier one stays.
    """
    # The extension stays the same, because libraries derive the format from it.
    partial = path.with_name(f".partial.{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    except BrokenPipeError:  # not from this file: standard output is closed
        raise
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def check_regular(path: Path) -> None:
    """Refuse to read what is not a regular file: opening a pipe may wait for ever.

    Raises:
        OSError: There is no such file, it is a folder, a pipe or a device, or a link to one.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "a pipe or a device, not a file", str(path))


def read_bytes(path: Path) -> bytes:
    """Read a regular file.

    Raises:
        OSError: As for `check_regular`, or the file cannot be read.
    """
    check_regular(path)
    return path.read_bytes()


def read_text(path: Path) -> str:
    """Read a regular file of UTF-8 text.

    Raises:
        OSError: As for `read_bytes`.
        UnicodeDecodeError: The file is not UTF-8.
    """
    return read_bytes(path).decode("utf-8")


def write_text(path: Path, text: str) -> None:
    """Replace a UTF-8 text file atomically.

    Raises:
        FileError: The file cannot be written; the earlier one stays.
    """
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically.

    Raises:
        FileError: The file cannot be written; the earlier one stays.
    """
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def occupants(folder: Path) -> list[str]:
    """Return the names in a folder that belong to its user.

    Left out are the names that a file system puts into the root of a volume, and the hidden
    folder that `atomic_folder` fills.
    """
    return sorted(set(os.listdir(folder)) - _VOLUME_NAMES - {_PARTIAL})


@contextlib.contextmanager
def atomic_folder(path: Path, replace: bool = False, last: str = "") -> Iterator[Path]:
    """Yield an empty locked folder, which becomes ``path`` if the block succeeds.

    It is removed if the block fails. Leftovers of a killed process are removed first. The contents
    are synced to disk before the rename, so that a power failure leaves no half-written folder at
    ``path``.

    An existing folder may be a mount point, a link, or in a parent that cannot be written, so it
    is not renamed over: it is filled from a hidden folder inside, with ``last`` at the end.

    Args:
        path: The folder to create. Without ``replace``, it must be missing or empty.
        replace: Replace a folder at ``path``, which stays if the block fails.
        last: Name of the file without which a reader ignores the folder.

    Raises:
        FileError: Another process is creating the same folder, it is not empty, or it cannot be
            written.
    """
    inside = path.is_dir() and (not replace or path.is_symlink() or path.is_mount())
    partial = path / _PARTIAL if inside else partial_path(path)
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with lock(partial):
            try:
                for name in os.listdir(partial):
                    remove(partial / name)
                if inside and not replace and (found := occupants(path)):
                    raise FileError(f"{path}: cannot be written: not empty, it has {found[0]}")
                yield partial
                sync(partial)
                if inside:
                    _move_contents(partial, path, replace, last)
                elif replace and path.exists():
                    _replace_folder(path, partial)
                else:
                    partial.rename(path)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error


def _move_contents(partial: Path, path: Path, replace: bool, last: str) -> None:
    """Move all that is in ``partial`` into ``path``, ``last`` at the end, and remove it."""
    if replace and last:
        (path / last).unlink(missing_ok=True)
    moved: list[Path] = []
    try:
        for name in sorted(os.listdir(partial), key=lambda name: name == last):
            moved.append(path / name)
            os.replace(partial / name, path / name)
        sync_entry(path)
        partial.rmdir()
    except BaseException:
        for place in moved if not replace else []:
            with contextlib.suppress(FileNotFoundError):
                remove(place)
        raise


def _replace_folder(path: Path, partial: Path) -> None:
    """Rename ``partial`` to ``path`` and remove the folder that was there."""
    previous = path.with_name(f".{path.name}.previous")
    if previous.exists():
        remove(previous)
    path.rename(previous)
    try:
        partial.rename(path)
    except BaseException:
        previous.rename(path)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def sync(folder: Path) -> None:
    """Flush a folder and its contents to disk."""
    for path in [*folder.rglob("*"), folder]:
        sync_entry(path)


def sync_entry(path: Path) -> None:
    """Flush a file, or the list of names of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_space(directory: Path, needed: int) -> None:
    """Check that ``needed`` bytes are free, since HDF5 may crash on a full disk.

    Raises:
        FileError: Too little space is free.
    """
    free = shutil.disk_usage(directory).free
    if free < 1.1 * needed + 2**20:  # for the metadata of HDF5
        raise FileError(
            f"{directory}: {needed / 2**20:,.1f} MB are to be written, "
            f"{free / 2**20:,.1f} MB are free on the disk"
        )


def remove(path: Path) -> None:
    """Delete a file, a link, or a folder and its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def core_count() -> int:
    """Return the number of cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
