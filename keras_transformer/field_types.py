"""Types of dataclass fields: values read from text, and checks of values from Python.

The command line, recipes and the configuration of a run read their values here, so that a text
means the same everywhere. Numbers are decimal: ``1000``, ``1_000``, ``1e3``, ``0.5``, ``6e-1``.
``012`` and ``1:30``, which YAML 1.1 reads as 10 and 90, are refused. Lists of texts are JSON:
``["a", "b"]``.
"""

from __future__ import annotations

import functools
import json
import numbers
import operator
import re
import types
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

TEXTS = tuple[str, ...]
"""The type of a field that holds a list of texts."""

_DIGITS = r"(?:0|[1-9]\d*|[1-9]\d{0,2}(?:_\d{3})+)"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?\.?(?:inf|nan)", re.IGNORECASE)
_BOOLEANS = dict.fromkeys(("true", "yes", "on"), True) | dict.fromkeys(
    ("false", "no", "off"), False
)

_MAX_NUMBER_LENGTH = 100
"""Characters; Python itself refuses to convert over 4,300 digits."""
_MAX_VALUE_LENGTH = 80
"""Characters of a value in a message."""


@functools.cache
def field_types(config_class: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    return get_type_hints(config_class)


def describe_type(kind: Any) -> str:
    """Describe a type for messages, such as "a whole number"."""
    kind = _without_none(kind)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a text",
        TEXTS: 'a list of texts such as ["a", "b"]',
    }
    return words.get(kind, str(kind))


def read_text(text: str, kind: Any) -> Any:
    """Read a value of a type from a text.

    Args:
        text: As written by the user.
        kind: int, float, bool, str, a ``Literal`` of texts, ``TEXTS``, or one of them with None.

    Raises:
        ValueError: The text is not a value of the type.
    """
    kind = _without_none(kind)
    value: object
    if kind is bool:
        value = _BOOLEANS.get(text.strip().casefold())
    elif kind is int:
        value = _read_int(text.strip())
    elif kind is float:
        value = _read_float(text.strip())
    elif kind == TEXTS:
        value = _read_list(text)
    else:
        value = text
    if value is None or not is_valid(value, kind):
        raise ValueError(f"expected {describe_type(kind)}, got {format_value(text)}")
    return value


def is_valid(value: object, kind: Any) -> bool:
    """Check whether a value has a type; NumPy's numbers are numbers, bool is not."""
    if kind is not _without_none(kind) and value is None:
        return True
    kind = _without_none(kind)
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind is str:  # no file name and no tool takes a NUL
        return isinstance(value, str) and "\0" not in value
    if kind == TEXTS:
        return isinstance(value, (list, tuple)) and all(is_valid(item, str) for item in value)
    return isinstance(value, kind)


def to_builtin(value: Any, kind: Any) -> Any:
    """Return a valid value in the type of its field.

    Numbers become int or float, since YAML and JSON take no other, and lists become tuples.
    """
    kind = _without_none(kind)
    if value is None or kind not in (int, float, TEXTS):
        return value
    if kind is int:
        return operator.index(value)
    return float(value) if kind is float else tuple(value)


def format_value(value: object) -> str:
    """Format a value for a message, shortened if it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of too many digits
        return "a number of thousands of digits"
    return (
        text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 4]}...{text[-1]}"
    )


def format_name(name: str) -> str:
    """Format a name for a message, in one line and shortened if it is long."""
    text = name if name.isprintable() else repr(name)[1:-1]
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."


def _without_none(kind: Any) -> Any:
    """Return ``kind`` without None: int for ``int | None``."""
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    return kind


def _read_int(text: str) -> int | None:
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:  # an exponent of over 18 digits
        return None
    if value and value.adjusted() > _MAX_NUMBER_LENGTH:  # 1e999999999 would fill the memory
        return None
    return int(value) if value == value.to_integral_value() else None


def _read_list(text: str) -> tuple[Any, ...] | None:
    """Read a JSON list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(value) if isinstance(value, list) else None


def _read_float(text: str) -> float | None:
    if _INFINITE.fullmatch(text):  # a number, so that the message names the field's range
        return float(text.replace(".", "", 1))
    return float(text) if _NUMBER.fullmatch(text) else None
