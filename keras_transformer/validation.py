"""Valid ranges and choices of dataclass fields, declared once beside each field.

An error names the field, the valid values and the value received.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class ConfigError(UserError):
    """A configuration value that cannot be used; the message names the field."""


class Range(NamedTuple):
    """The valid values of a number."""

    expected: str
    """Description for messages."""
    accepts: Callable[[float], bool]
    """Return whether a value is valid."""


def at_least(low: float) -> Range:
    """Return the range from ``low`` upwards."""
    return Range(f"{low} or more", lambda value: value >= low)


POSITIVE = Range("a number above 0", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = at_least(0)
RATE = Range("0 <= value < 1", lambda value: 0 <= value < 1)
SHARE = Range("0 < share <= 1", lambda value: 0 < value <= 1)


def option(default: Any, valid: Range) -> Any:
    """Declare a dataclass field with its default and the range that `check_fields` enforces."""
    return dataclasses.field(default=default, metadata={"range": valid})


def require(condition: bool, name: str, expected: str, received: object) -> None:
    """Refuse the value of the field ``name`` unless ``condition`` holds.

    Raises:
        ConfigError: Names the field, the valid values and the value received.
    """
    if not condition:
        raise ConfigError(f"{name}: expected {expected}, got {received!r}")


def check_fields(config: DataclassInstance, section: str) -> None:
    """Check each field of a dataclass against its ``Literal`` type or declared range.

    Args:
        config: The dataclass instance.
        section: Name of the section, for messages.

    Raises:
        ConfigError: Names the first field with an invalid value.
    """
    choices = _choices(type(config))
    for item in dataclasses.fields(config):
        name, value = f"{section}.{item.name}", getattr(config, item.name)
        if item.name in choices:
            valid = choices[item.name]
            require(value in valid, name, f"one of {', '.join(valid)}", value)
        if "range" in item.metadata:
            allowed: Range = item.metadata["range"]
            require(allowed.accepts(value), name, allowed.expected, value)


@functools.cache
def _choices(config_class: type) -> dict[str, tuple[str, ...]]:
    hints = get_type_hints(config_class)
    return {name: get_args(kind) for name, kind in hints.items() if get_origin(kind) is Literal}
