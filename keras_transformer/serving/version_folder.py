"""The folder of one version of a model: made aside, whole or not at all, never overwritten."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_transformer import files
from keras_transformer.serving.folder import next_version

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
        with files.alone(directory):
            for left in directory.glob(f"{_STAGING}*"):
                files.remove(left)
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=directory))
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise files.FileError(f"{directory}: cannot be written: {error}") from error
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
