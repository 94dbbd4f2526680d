"""Atomic files and folders, locks, disk space, processor cores and stop signals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError


class FileError(UserError):
    """A path that is locked, full or not writable."""


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file or folder until the block or the process ends.

    Raises:
        FileError: Another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
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
    check_local(path)
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


@contextlib.contextmanager
def atomic_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """Yield an empty locked folder, which becomes ``path`` if the block succeeds.

    It is removed if the block fails. Leftovers of a killed process are removed first. The contents
    are synced to disk before the rename, so that a power failure leaves no half-written folder at
    ``path``.

    Args:
        path: The folder to create. Without ``replace``, it must be missing or empty when the block
            ends.
        replace: Replace a folder at ``path``, which stays if the block fails.

    Raises:
        FileError: Another process is creating the same folder, or it cannot be written.
    """
    check_local(path)
    partial = partial_path(path)
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with lock(partial):
            try:
                for name in os.listdir(partial):
                    remove(partial / name)
                yield partial
                sync(partial)
                if replace and path.exists():
                    _replace_folder(path, partial)
                else:
                    partial.rename(path)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error


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


def stop_signals() -> list[signal.Signals]:
    """Return the signals that ask this process to end, without those that it was started to ignore.

    ``nohup`` lets a program ignore SIGHUP, and a shell script lets its background processes ignore
    SIGINT.
    """
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGXCPU")  # the last two are missing on Windows
    found = [signal.Signals[name] for name in names if hasattr(signal, name)]
    return [number for number in found if signal.getsignal(number) != signal.SIG_IGN]


REPEATED_SIGNALS = ("SIGHUP", "SIGXCPU")
"""Stop signals that arrive more than once for one reason, even while the process exits.

A closed terminal's SIGHUP comes from the kernel and from the shell; past the limit on processor
time, SIGXCPU comes every second.
"""


def restore_handlers(handlers: Mapping[int, Any]) -> None:
    """Set signal handlers back to those of `signal.getsignal`.

    A signal that is ignored by now stays ignored: it is ending the process. None, the handler of a
    library in C, cannot be restored.
    """
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def check_local(path: str | Path, name: str = "") -> None:
    """Refuse an address such as ``gs://bucket/file`` where a path of this machine is expected.

    Args:
        path: The path; `Path` has made one slash of two.
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
