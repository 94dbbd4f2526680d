"""Valid types, ranges and choices of dataclass fields, declared once beside each field.

An error names the field, the valid values and the value received.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.field_types import (
    describe_type,
    field_types,
    format_name,
    format_value,
    is_valid,
    read_text,
    to_builtin,
)

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


def between(low: float, high: float) -> Range:
    """Return the range from ``low`` to ``high``, both included."""
    return Range(f"{low} to {high}", lambda value: low <= value <= high)


def zero_or(low: float, high: float, meaning: str) -> Range:
    """Return the range from ``low`` to ``high`` and 0, with the meaning of 0 for messages."""
    return Range(
        f"0 ({meaning}) or {low} to {high}", lambda value: value == 0 or low <= value <= high
    )


# Every number has an upper limit: above sensible values, and within the type that computes with
# it, int32 for steps, lengths, ids and seeds, float32 for the others.
MAX_STEPS = 1_000_000_000
"""Most steps, and most minutes or steps between two events."""
MAX_LENGTH = 100_000
"""Most tokens of a sentence."""
MAX_VOCABULARY_SIZE = 1_000_000
"""Greatest vocabulary size."""
MAX_BATCH_TOKENS = 100_000_000
"""Most tokens of a batch."""
MAX_WIDTH = 65_536
"""Greatest width of a layer, and most heads."""
MAX_LAYERS = 1_000
"""Most layers of a stack."""
MAX_FACTOR = 1_000
"""Most tokens of an output for each token of its source."""
MAX_HYPOTHESES = 1_000
"""Most hypotheses of a sentence; all of them are in memory at once."""
MAX_PROCESSES = 1_024
"""Most workers, threads and parallel batches."""
MAX_SEED = 2**31 - 1
"""Greatest seed."""

# In float32, 1 minus a greater rate would be 0.
RATE = between(0, 0.9999999)
SHARE = between(1e-9, 1)
SEED = between(0, MAX_SEED)


def option(default: Any, valid: Range) -> Any:
    """Declare a dataclass field with its default and the range that `check_fields` enforces."""
    return dataclasses.field(default=default, metadata={"range": valid})


def require(condition: bool, name: str, expected: str, received: object) -> None:
    """Refuse the value of the field ``name`` unless ``condition`` holds.

    Raises:
        ConfigError: Names the field, the valid values and the value received.
    """
    if not condition:
        raise ConfigError(f"{name}: expected {expected}, got {format_value(received)}")


def read_field(config_class: type, field_name: str, text: str, name: str) -> Any:
    """Read the value of a dataclass field from a text.

    Args:
        config_class: The dataclass.
        field_name: One of its fields.
        text: As written by the user.
        name: The field's name for messages, such as ``train.seed``.

    Raises:
        ConfigError: The text is not a value of the field's type.
    """
    kind = field_types(config_class)[field_name]
    (item,) = (each for each in dataclasses.fields(config_class) if each.name == field_name)
    try:
        return read_text(text, kind)
    except ValueError:
        raise ConfigError(
            f"{name}: expected {_expected(item, kind, text)}, got {format_value(text)}"
        ) from None


def _expected(item: dataclasses.Field[Any], kind: Any, received: object) -> str:
    """Describe the valid values, with the field's reason for refusing the received one, if any."""
    reasons = item.metadata.get("why_not", {})
    known = isinstance(received, str) and received in reasons
    return f"{describe_type(kind)} ({reasons[received]})" if known else describe_type(kind)


def check_number(value: float | None, name: str, valid: Range) -> None:
    """Refuse a number out of its range; None, an option left out, is accepted.

    Raises:
        ConfigError: Names the option, the valid values and the value received.
    """
    require(value is None or valid.accepts(value), name, valid.expected, value)


def unknown_message(name: str, kind: str, names: Sequence[str], listed_by: str = "--help") -> str:
    """Return the message for an unknown option or field, with similar valid ones.

    Args:
        name: As written by the user.
        kind: "option" or "field".
        names: The valid ones, without dashes.
        listed_by: The option that lists them.
    """
    name = format_name(name)
    bare = name.removeprefix("--")
    last = bare.rpartition(".")[2]
    same_field = [valid for valid in names if valid.rpartition(".")[2] == last]
    near = same_field or difflib.get_close_matches(bare, names, n=3, cutoff=0.6)
    prefix = "--" if kind == "option" else ""
    hint = f"; did you mean {' or '.join(prefix + valid for valid in near)}?" if near else ""
    return f"unknown {kind} {name}{hint or f' ({listed_by} lists them)'}"


def check_fields(config: DataclassInstance, section: str = "") -> None:
    """Check each field of a dataclass against its type and its declared range.

    Numbers become int or float, since NumPy's cannot be written to YAML or JSON; lists of texts
    become tuples.

    Args:
        config: The dataclass instance, which may be frozen.
        section: Name of the section, for messages.

    Raises:
        ConfigError: Names the first field with an invalid value.
    """
    kinds = field_types(type(config))
    for item in dataclasses.fields(config):
        name = f"{section}.{item.name}" if section else item.name
        value, kind = getattr(config, item.name), kinds[item.name]
        require(is_valid(value, kind), name, _expected(item, kind, value), value)
        if value is None:
            continue
        if "range" in item.metadata:
            allowed: Range = item.metadata["range"]
            require(allowed.accepts(value), name, allowed.expected, value)
        object.__setattr__(config, item.name, to_builtin(value, kind))
