"""Files that are written whole or not at all, locks, free disk space, and processor cores."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.errors import UserError


class FileError(UserError):
    """A place that is in use, full, or cannot be written."""


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold a lock on a folder, without a file in it. It ends with the process at the latest."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"{directory}: another process is at work in it") from None
        except OSError:  # a file system that knows no locks
            pass
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A place to write a file, which then appears whole or not at all."""
    place = path.with_name(f".writing.{path.name}")
    try:
        yield place
        os.replace(place, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    finally:
        place.unlink(missing_ok=True)


def check_space(directory: Path, needed: int) -> None:
    """Refuse to write so many bytes on a full disk: HDF5 may crash on it."""
    free = shutil.disk_usage(directory).free
    if free < 1.1 * needed + 2**20:  # its own tables take some too
        raise FileError(
            f"{directory}: {needed / 2**20:,.1f} MB are to be written, "
            f"{free / 2**20:,.1f} MB are free on the disk"
        )


def remove(path: Path) -> None:
    """Delete a file, a link, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def cores() -> int:
    """The cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
