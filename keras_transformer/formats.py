"""Format numbers of run folders and exports, and the version of the package that wrote them."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.errors import UserError

PACKAGE = "keras-translate"
"""Name of the package, as it is installed."""
VERSION = "0.1.0"
"""Version of the package, as in pyproject.toml; a checkout need not be installed."""
RUN_FORMAT = 1
"""Format of the run folders that this version writes, and the latest that it reads."""
EXPORT_FORMAT = 1
"""Format of the exports that this version writes, and the latest that it reads."""
FORMAT_NUMBER = "format_number"
"""Key of the format number in versions.json and export.json."""

_LIBRARIES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "numpy", "sacrebleu")


class FormatError(UserError):
    """A folder in a format that this version does not read."""


def check_format(file: Path, values: Mapping[str, Any], versions: Any, latest: int) -> None:
    """Refuse a later format than this version reads.

    Args:
        file: The file that holds the number, for messages.
        values: Its contents; without a number, the format is 1.
        versions: The versions of the package and the libraries by name, as the writer stored them.
        latest: The latest format that this version reads.

    Raises:
        FormatError: The format is a later one, or its number is not valid. For a later one, the
            message names the version of the package that reads it.
    """
    number = values.get(FORMAT_NUMBER, 1)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise FormatError(
            f"{file}: {FORMAT_NUMBER}: expected a whole number from 1 on, got {number!r}"
        )
    if number > latest:
        writer = versions.get(PACKAGE) if isinstance(versions, Mapping) else None
        needed = f"{PACKAGE} {writer} or later" if writer else f"a later version of {PACKAGE}"
        raise FormatError(
            f"{file}: expected format {latest} or earlier, got format {number}, which "
            f"{PACKAGE} {VERSION} does not read; install {needed}"
        )


def versions() -> dict[str, Any]:
    """Return the versions of the package, Python and the libraries that results depend on."""
    found = {PACKAGE: VERSION, "python": platform.python_version(), "machine": platform.machine()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # such as another build of TensorFlow
            found[name] = "not installed under this name"
    return found


def read_versions(file: Path) -> dict[str, Any]:
    """Return the contents of a versions.json; {}, which has format 1, if it is missing.

    Raises:
        FormatError: The file cannot be read.
    """
    try:
        values = json.loads(system.read_text(file))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FormatError(
            f"{file}: cannot be read: {reason}. Restore it, or delete it: it has no settings"
        ) from None
    if not isinstance(values, dict):
        raise FormatError(f"{file}: expected versions by name, got {values!r}")
    return values
