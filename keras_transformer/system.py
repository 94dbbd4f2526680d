"""Atomic files and folders, locks, disk space and processor cores."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer import file_replacement
from keras_transformer.errors import UserError

# Names that a file system puts into the root of a volume.
_VOLUME_NAMES = {"lost+found", ".snapshot"}
# Hidden folder inside an existing folder that `atomic_folder` fills.
_PARTIAL = ".partial"


class FileError(UserError):
    """A path that is locked, full or not writable."""


@contextlib.contextmanager
def lock(path: Path) -> Iterator[int]:
    """Hold an exclusive lock on a file or folder until the block or the process ends.

    Yields:
        The descriptor that holds it.

    Raises:
        FileError: Another process holds the lock.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"{path}: in use by another process") from None
        except (ImportError, OSError):  # an operating system or a file system without locks
            pass
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the name of a file, which need not exist.

    A hidden empty file beside it is locked: a lock on the file itself would end when another file
    is renamed to its name.

    Raises:
        FileError: Another process holds the lock.
        OSError: Neither the folder nor the file is writable.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = file_replacement.hidden_path(path, "writing")
            while not _lock_new(file, stack):
                pass
        except FileError:
            raise FileError(f"{path}: another process is writing it") from None
        except OSError as error:  # the folder is not writable
            if not path.exists():
                raise OSError(error.errno, error.strerror, str(path)) from error
            stack.enter_context(lock(path))
        yield


def _lock_new(file: Path, stack: contextlib.ExitStack) -> bool:
    """Create a file if it is missing, and lock it; it is removed when ``stack`` closes.

    Returns:
        False if another process removed the file before it was locked.
    """
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o666))
        status = os.fstat(stack.enter_context(lock(file)))
        if not os.path.samestat(status, file.stat()):
            return False
    except FileNotFoundError:
        if not file.parent.is_dir():
            raise
        return False
    if not status.st_size:
        stack.callback(_remove_if_allowed, file)  # before the lock ends
    return True


def _remove_if_allowed(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()


def partial_folder(path: Path) -> Path:
    """Return the path of the hidden folder that becomes ``path`` when it is complete."""
    return path.with_name(f".{path.name}.partial")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, whose file replaces ``path`` if the block succeeds.

    Owner and mode of an existing file stay. Leftovers of killed processes are removed.

    Raises:
        FileError: The file cannot be written, and the earlier one stays; or another process is
            writing it. If only the replacement fails, the message names the complete file.
    """
    check_local(path)
    try:
        with write_lock(path):
            file_replacement.remove_leftovers(path)
            partial = file_replacement.create_partial(path)
            try:
                yield partial
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            file_replacement.replace(partial, path)
    except BrokenPipeError:  # not from this file: standard output is closed
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{path}: cannot be written: {reason}") from error


def check_regular(path: Path) -> None:
    """Refuse a path that is not a regular file: opening a pipe may wait for ever.

    Raises:
        OSError: The path is missing, a folder, a pipe or a device, or a link to one of them.
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

    Undecodable bytes of file names are escaped, ``\\udce9``, as JSON and YAML read them.

    Raises:
        FileError: The file cannot be written; the earlier one stays.
    """
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically.

    Raises:
        FileError: The file cannot be written; the earlier one stays.
    """
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def user_entries(folder: Path) -> list[str]:
    """Return the names of a folder's entries, without those that are not the user's.

    Such are the entries that a file system puts into the root of a volume, and the hidden folder
    that `atomic_folder` fills.
    """
    return sorted(set(os.listdir(folder)) - _VOLUME_NAMES - {_PARTIAL})


@contextlib.contextmanager
def atomic_folder(path: Path, replace: bool = False, last: str = "") -> Iterator[Path]:
    """Yield an empty locked folder, which becomes ``path`` if the block succeeds.

    It is removed if the block fails. Leftovers of a killed process are removed first. The contents
    are synced to disk before the rename, so that a power failure leaves no half-written folder at
    ``path``.

    An existing folder may be a mount point or a link, or its parent may not be writable. So no
    folder is renamed to its name; the contents are prepared in a hidden folder inside it and then
    moved, ``last`` at the end.

    Args:
        path: The folder to create. Without ``replace``, it must be missing or empty.
        replace: Replace a folder at ``path``, which stays if the block fails.
        last: Name of the file without which a reader ignores the folder.

    Raises:
        FileError: Another process is creating the same folder, it is not empty, or it cannot be
            written.
    """
    check_local(path)
    inside = path.is_dir() and (not replace or path.is_symlink() or path.is_mount())
    partial = path / _PARTIAL if inside else partial_folder(path)
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with lock(partial):
            try:
                for name in os.listdir(partial):
                    remove(partial / name)
                if inside and not replace and (found := user_entries(path)):
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
    """Move the contents of ``partial`` into ``path``, ``last`` at the end, and remove it."""
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
    """Check that a file of ``needed`` bytes can be written, since HDF5 crashes where it cannot.

    Raises:
        FileError: Too little space is free, or a quota or a limit on the size of files is lower.
    """
    free = shutil.disk_usage(directory).free
    size = needed + needed // 10 + 2**20  # with the metadata of HDF5
    if free < size:
        raise FileError(
            f"{directory}: {needed / 2**20:,.1f} MB are to be written, "
            f"{free / 2**20:,.1f} MB are free on the disk"
        )
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # file systems without this call
            reason = error.strerror or str(error)
            raise FileError(
                f"{directory}: {needed / 2**20:,.1f} MB are to be written: {reason}"
            ) from error
    except AttributeError:  # macOS
        pass


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


def check_local(path: str | Path, name: str = "") -> None:
    """Refuse an address such as ``gs://bucket/file`` where a path of this machine is expected.

    Args:
        path: The path, where `Path` has already reduced ``//`` to ``/``.
        name: The option or field that holds it, for the message.

    Raises:
        FileError: The path begins with a scheme.
    """
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", os.fspath(path))
    if match:
        remote = f"{match[1]}:// is not supported: copy it to this machine, or mount it as a folder"
        way_out = "leave file:// out" if match[1].lower() == "file" else remote
        raise FileError(
            f"{name}{': ' if name else ''}expected a path on this machine, got {path}; {way_out}"
        )
