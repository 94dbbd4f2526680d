"""Messages about mistyped options."""

from __future__ import annotations

from collections.abc import Sequence

from keras_transformer.compat import jsonargparse as compat
from keras_transformer.errors import UserError
from keras_transformer.field_types import format_value
from keras_transformer.validation import unknown_message


class UsageError(UserError):
    """An option that cannot be understood."""


def explain(message: str, names: Sequence[str]) -> str:
    """Rewrite an error message of the parser for users.

    Args:
        message: The text of an ``argparse.ArgumentError``.
        names: Valid options, without dashes, to suggest similar ones.
    """
    error = compat.read_error(message)
    if error.kind == "argument":
        return f"unexpected argument {format_value(error.subject)} (--help lists the options)"
    if error.kind == "option":
        return unknown_message(error.subject, "option", names)
    return f"{error.subject}: {error.message}" if error.subject else error.message
