"""Version folders of a model: numbered, written atomically, never overwritten."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from keras_transformer import system
from keras_transformer.run import CONFIG
from keras_transformer.serving.settings import MAX_VERSION, ExportError

MODEL_NAME = "a name without spaces, control characters and any of / : ? # %"
"""Description of valid model names, for messages."""


def is_model_name(name: str) -> bool:
    """Return whether a model of this name can be served.

    The name is a part of URLs. TensorFlow Serving ends it at ``/`` and ``:``, the query and the
    fragment start at ``?`` and ``#``, and ``%`` escapes. Names that are not UTF-8 are refused too.
    """
    return bool(re.fullmatch(r"[^/:?#%\s]+", name)) and name.isprintable()


def model_name(directory: Path) -> str:
    """Return the name of the model whose versions a folder holds: that of the folder.

    Args:
        directory: Folder of the versions; may be missing.

    Raises:
        ExportError: A model of this name cannot be served.
    """
    name = directory.resolve().name
    if not is_model_name(name):
        raise ExportError(
            f"{directory}: the folder's name is the model's; expected {MODEL_NAME}, got {name!r}"
        )
    return name


@contextlib.contextmanager
def new_version(directory: Path, wanted: int | None) -> Iterator[tuple[Path, int]]:
    """Yield a hidden folder that becomes the new version if the block succeeds.

    Its name is not a number, so that no server loads a half-written version. Hidden folders of
    killed exports are removed. A failed export leaves nothing, not even ``directory`` if it was
    new.

    Args:
        directory: Folder of the versions; made if missing.
        wanted: Version number; None: one more than the greatest present.

    Yields:
        The folder to write into, and the version number.

    Raises:
        ExportError: The version exists, or ``directory`` is not a folder.
        FileError: The disk cannot be written, or another process exports into ``directory``.
    """
    _check_folder(directory)
    made = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with system.lock(directory):
            version = next_version(directory, wanted)
            _remove_leftovers(directory)
            with system.atomic_folder(directory / str(version)) as folder:
                yield folder, version
    except OSError as error:
        raise system.FileError(f"{directory}: cannot be written: {error}") from error
    finally:
        if made:
            with contextlib.suppress(OSError):  # not empty: it holds the version
                directory.rmdir()


def _remove_leftovers(directory: Path) -> None:
    """Remove unfinished versions; call it under the lock of ``directory``."""
    for path in directory.glob(system.partial_folder(directory / "*").name):
        system.remove(path)


def version_number(name: str) -> int | None:
    """Return the version number in a folder name, None for a name that is not a number.

    The number may be above ``MAX_VERSION``, which no server accepts.
    """
    return int(name) if name.isascii() and name.isdecimal() else None


def next_version(directory: Path, wanted: int | None) -> int:
    """Return the number of the version to write.

    Args:
        directory: Folder of the versions; may be missing.
        wanted: The requested number; None: one more than the greatest present.

    Raises:
        ExportError: The version exists, no greater number is left, or ``directory`` is not a
            writable folder.
    """
    _check_folder(directory)
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


def _check_folder(directory: Path) -> None:
    """Refuse a path that is not, and cannot become, a writable folder."""
    places = (directory, *directory.parents)
    existing = next(path for path in places if path.exists() or path.is_symlink())
    if not existing.exists():
        raise ExportError(f"{directory}: expected a folder, found {existing}, a link to nothing")
    if not existing.is_dir():
        other = f"{existing}, which is not a folder"
        found = "something else there" if existing == directory else other
        raise ExportError(f"{directory}: expected a folder, found {found}")
    if (directory / CONFIG).exists():
        raise ExportError(f"{directory}: expected a folder for exports, found a run folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ExportError(f"{directory}: cannot be written: no permission to write in {existing}")
