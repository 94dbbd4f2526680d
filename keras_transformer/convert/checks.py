"""Checks of settings in foreign files, which may hold any value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from keras_transformer.convert.errors import ConvertError

Choice = TypeVar("Choice")


def choose(file: object, name: str, value: Any, choices: Mapping[str, Choice]) -> Choice:
    """Return the choice that a text names.

    Raises:
        ConvertError: The value is none of the names.
    """
    if not isinstance(value, str) or value not in choices:
        raise ConvertError(
            f"{file}: {name}: expected one of {', '.join(choices)}, got {shown(value)}"
        )
    return choices[value]


def whole_number(file: object, name: str, value: Any, least: int = 1) -> int:
    """Return a value that is a whole number.

    Raises:
        ConvertError: It is another value, or below ``least``.
    """
    if type(value) is not int or value < least:
        raise ConvertError(
            f"{file}: {name}: expected a whole number from {least}, got {shown(value)}"
        )
    return value


def text(file: object, name: str, value: Any) -> str:
    """Return a value that is a text.

    Raises:
        ConvertError: It is another value.
    """
    if not isinstance(value, str) or not value:
        raise ConvertError(f"{file}: {name}: expected a text, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return a value in a message, cut if it is long."""
    line = repr(value).replace("\n", " ")
    return line if len(line) <= 60 else f"{line[:57]}..."
