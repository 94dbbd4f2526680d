"""The folder of a served model, and the numbers of the versions in it."""

from __future__ import annotations

import os
from pathlib import Path

from keras_transformer.serving.settings import MAX_VERSION, ExportError


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
