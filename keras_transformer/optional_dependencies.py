"""Libraries that show a training and that it can do without."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from keras_transformer.errors import UserError


class MissingError(UserError):
    """A library that is asked for and not installed."""


def missing(names: Sequence[str]) -> list[str]:
    """Which of these modules cannot be imported, be it for want of what they need themselves."""
    absent = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            absent.append(name)
    return absent


def require_installed(field: str, names: Sequence[str]) -> None:
    """Refuse a choice whose libraries are missing.

    Args:
        field: The choice, as the user wrote it.
        names: What it needs; a library and its package have the same name.

    Raises:
        MissingError: Names what to install.
    """
    absent = missing(names)
    if absent:
        raise MissingError(
            f"{field}: expected {' and '.join(names)} to be installed, {' and '.join(absent)} "
            f"{'is' if len(absent) == 1 else 'are'} not: pip install {' '.join(absent)}"
        )
