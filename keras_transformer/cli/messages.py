"""Messages about mistyped options and configuration files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from keras_transformer.compat import jsonargparse as compat
from keras_transformer.config import WHY_NOT
from keras_transformer.errors import UserError

_TYPES = {
    "<class 'int'>": "a whole number",
    "<class 'float'>": "a number",
    "<class 'bool'>": "true or false",
    "<class 'str'>": "a text (in YAML: put it in quotes)",
}


class UsageError(UserError):
    """An option or a configuration file that cannot be understood."""


def explain(message: str, names: Sequence[str]) -> str:
    """Rewrite an error message of the parser for users.

    Args:
        message: The text of an ``argparse.ArgumentError``.
        names: Valid options and fields, without dashes, to suggest similar ones.
    """
    error = compat.read_error(message)
    if error.kind == "value":
        return _wrong_value(error)
    if error.kind == "argument":
        return f"unexpected argument {error.subject!r}"
    if error.kind in ("option", "field"):
        return _unknown(error.subject, error.kind, names)
    if error.kind == "content":
        found = error.subject or "nothing"
        return f"expected fields such as 'train: {{max_steps: 100}}', found {found[:60]}"
    return f"{error.subject}: {error.expected}" if error.subject else error.expected


def _wrong_value(error: compat.ParseError) -> str:
    choices = re.fullmatch(r"typing\.Literal\[(.+)\]", error.expected)
    expected = f"one of {choices[1]}" if choices else _TYPES.get(error.expected, error.expected)
    expected = expected.replace("'", "")
    reason = f" ({WHY_NOT[error.value]})" if error.value in WHY_NOT else ""
    return f"{error.subject}: expected {expected}{reason}, got {error.value!r}"


def _unknown(name: str, kind: str, names: Sequence[str]) -> str:
    """Name an unknown option or field, and similar valid ones."""
    bare = name.removeprefix("--")
    last = bare.rpartition(".")[2]
    same_field = [valid for valid in names if valid.rpartition(".")[2] == last]
    near = same_field or difflib.get_close_matches(bare, names, n=3, cutoff=0.6)
    prefix = "--" if kind == "option" else ""
    hint = f"; did you mean {' or '.join(prefix + valid for valid in near)}?" if near else ""
    return f"unknown {kind} {name}{hint or ' (--help lists them)'}"
