"""Private parts of argparse and jsonargparse that the command line relies on.

Checked with jsonargparse 4.53.0 on Python 3.11; ``tests/compat/test_jsonargparse.py`` fails when
one of them changes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from jsonargparse import DefaultHelpFormatter


def actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    """Return the options of a parser; argparse has no public list of them."""
    return parser._actions


def long_options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of a parser's long options; argparse has no public list of them."""
    return [name for name in parser._option_string_actions if name.startswith("--")]


def remove_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Refuse an option from now on; argparse cannot remove one.

    jsonargparse adds ``--train {...}``, a whole section as YAML, which would be read with other
    rules than a file.
    """
    action = parser._option_string_actions.pop(name)
    action.help = argparse.SUPPRESS


def read_with(action: argparse.Action, read: Callable[[str], Any]) -> None:
    """Read the text of an option with a type hint by ``read``, not as YAML.

    jsonargparse has a public hook for one type in all parsers, but none that knows the option,
    and it takes ``012`` for 10 and ``1:30`` for 90.

    Args:
        action: An option with a type hint.
        read: Raises ValueError for a text that is no valid value; its message becomes that of
            the ``argparse.ArgumentError``.
    """

    def check_type(value: Any) -> Any:
        if not isinstance(value, str):  # the default, or read before
            return value
        try:
            return read(value)
        except ValueError as error:
            raise TypeError(str(error)) from None

    action._check_type = check_type  # type: ignore[attr-defined]


class ManualFormatter(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help formatter that keeps the layout of the description and omits empty defaults.

    jsonargparse appends the default in ``_expand_help``; no public method comes after it.
    """

    def _expand_help(self, action: argparse.Action) -> str:
        text = re.sub(r" \(default: (null|False|\[\])\)$", "", super()._expand_help(action))
        return re.sub(r", default: (null)?\)$", ")", text)


class ParseError(NamedTuple):
    """Content of an error message of the parser."""

    kind: Literal["argument", "option", "other"]
    """Unexpected argument; unknown option; any other mistake."""
    subject: str
    """The option or argument; "" if the message names none."""
    message: str = ""
    """The message itself, of another mistake."""


def read_error(message: str) -> ParseError:
    """Parse the message of an ``argparse.ArgumentError``, which has no fields for its content."""
    unknown = re.match(r"(?s)unrecognized arguments: (\S+|.*)", message)
    if unknown:
        word = unknown[1]
        return (
            ParseError("option", word.partition("=")[0])
            if word.startswith("-")
            else ParseError("argument", word)
        )
    named = re.match(r'(?s)(?:argument |Parser key "(.+?)":\s*)', message)
    if named:
        return ParseError("other", named[1] or "", message[named.end() :])
    return ParseError("other", "", message)
