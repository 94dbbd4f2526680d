"""The folder of one version of a model: made aside, whole or not at all, never overwritten."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_transformer import system
from keras_transformer.serving.settings import MAX_VERSION, ExportError

# Not a number, so that no server takes it for a version.
_STAGING = ".export-"


@contextlib.contextmanager
def new_version(directory: Path, wanted: int | None) -> Iterator[tuple[Path, int]]:
    """A folder to write a version in; it appears in its place when the block ends well.

    Args:
        directory: Folder of the versions; made if missing.
        wanted: Number of the version; None: one more than the greatest that is there.

    Yields:
        The folder to write in, and the number.

    Raises:
        ExportError: The version is there already, or ``directory`` is no folder.
        FileError: The disk cannot be written, or another export is at work in ``directory``.
    """
    next_version(directory, wanted)  # refused before a folder is made
    with _staging(directory) as staging:
        version = next_version(directory, wanted)
        yield staging, version
        _publish(staging, directory / str(version))


@contextlib.contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A folder to work in, gone in the end; so is ``directory``, where nothing came into it.

    Nobody else exports there meanwhile, and what killed exports left goes too.
    """
    made = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with system.lock(directory):
            for left in directory.glob(f"{_STAGING}*"):
                system.remove(left)
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=directory))
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise system.FileError(f"{directory}: cannot be written: {error}") from error
    finally:
        if made:
            with contextlib.suppress(OSError):  # not empty: the version is there
                directory.rmdir()


def _publish(staging: Path, place: Path) -> None:
    """Let the version appear, whole even if the machine stops now."""
    for path in [*staging.rglob("*"), staging]:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    staging.chmod(0o755)  # temporary folders are private
    staging.rename(place)


def version_number(name: str) -> int | None:
    """The version that a folder of this name is, None for any other folder.

    The number may be above ``MAX_VERSION``, which no server takes.
    """
    return int(name) if name.isascii() and name.isdecimal() else None


def next_version(directory: Path, wanted: int | None) -> int:
    """The number of the version that is to be written.

    Args:
        directory: Folder of the versions; need not be there.
        wanted: The number that was asked for, None for one more than the greatest.

    Raises:
        ExportError: The version is there already, there can be no greater one, or ``directory``
            is no folder that can be written.
    """
    there = next(place for place in (directory, *directory.parents) if place.exists())
    if not there.is_dir():
        found = "something else there" if there == directory else f"{there}, which is none"
        raise ExportError(f"{directory}: expected a folder, found {found}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ExportError(f"{directory}: cannot be written: no permission to write in {there}")
    names = [path.name for path in directory.iterdir()] if directory.exists() else []
    numbers = {number for name in names if (number := version_number(name)) is not None}
    following = max((number for number in numbers if number <= MAX_VERSION), default=0) + 1
    if wanted is None:
        if following > MAX_VERSION:
            raise ExportError(
                f"{directory / str(MAX_VERSION)} is there already, and no version can be greater"
            )
        return following
    if wanted in numbers:
        raise ExportError(
            f"{directory / str(wanted)} is there already and is not overwritten; "
            f"leave --version out for version {following}"
        )
    return wanted
