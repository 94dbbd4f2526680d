"""Types of dataclass fields: values read from text, and checks of values from Python.

The command line, recipes and the configuration of a run read their values here, so that a text
means the same everywhere. Numbers are decimal: ``1000``, ``1_000``, ``1e3``, ``0.5``, ``6e-1``.
Neither ``012`` nor ``1:30`` is a number, which YAML 1.1 reads as 10 and 90.
"""

from __future__ import annotations

import functools
import numbers
import operator
import re
import types
from decimal import Decimal
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_DIGITS = r"(?:0|[1-9]\d*|[1-9]\d{0,2}(?:_\d{3})+)"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?\.?(?:inf|nan)", re.IGNORECASE)
_BOOLEANS = dict.fromkeys(("true", "yes", "on"), True) | dict.fromkeys(
    ("false", "no", "off"), False
)

_LONGEST_NUMBER = 100
"""Characters; Python itself refuses to convert over 4,300 digits."""
_LONGEST_SHOWN = 80
"""Characters of a value in a message."""


@functools.cache
def field_types(config_class: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    return get_type_hints(config_class)


def describe(kind: Any) -> str:
    """Return the words of messages for a type, such as "a whole number"."""
    kind = _required(kind)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return words.get(kind, str(kind))


def read_text(text: str, kind: Any) -> Any:
    """Return the value of a type that a text stands for.

    Args:
        text: As written by the user.
        kind: int, float, bool, str, a ``Literal`` of texts, or one of them with None.

    Raises:
        ValueError: The text is no such value.
    """
    kind = _required(kind)
    value: object
    if kind is bool:
        value = _BOOLEANS.get(text.strip().casefold())
    elif kind is int:
        value = _read_whole(text.strip())
    elif kind is float:
        value = _read_float(text.strip())
    else:
        value = text
    if value is None or not is_valid(value, kind):
        raise ValueError(f"expected {describe(kind)}, got {shown(text)}")
    return value


def is_valid(value: object, kind: Any) -> bool:
    """Return whether a value has a type; NumPy's numbers count as numbers, bool does not."""
    if kind is not _required(kind) and value is None:
        return True
    kind = _required(kind)
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind is str:  # no file name and no tool takes a NUL
        return isinstance(value, str) and "\0" not in value
    return isinstance(value, kind)


def plain(value: Any, kind: Any) -> Any:
    """Return a valid value as int or float if its field is a number, as YAML and JSON need it."""
    if value is None or _required(kind) not in (int, float):
        return value
    return operator.index(value) if _required(kind) is int else float(value)


def shown(value: object) -> str:
    """Return a value for a message, shortened if it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of too many digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 4]}...{text[-1]}"


def _required(kind: Any) -> Any:
    """Return ``kind`` without None: int for ``int | None``."""
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    return kind


def _read_whole(text: str) -> int | None:
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    if value and value.adjusted() > _LONGEST_NUMBER:  # 1e999999999 would fill the memory
        return None
    return int(value) if value == value.to_integral_value() else None


def _read_float(text: str) -> float | None:
    if _INFINITE.fullmatch(text):  # the range refuses it
        return float(text.replace(".", "", 1))
    return float(text) if _NUMBER.fullmatch(text) else None
