"""Private parts of argparse and jsonargparse that the command line relies on.

Checked with jsonargparse 4.53.0 on Python 3.11; ``tests/compat/test_jsonargparse.py`` fails when
one of them changes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from jsonargparse import DefaultHelpFormatter


def actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    """Return the options of a parser; argparse has no public list of them."""
    return parser._actions


def long_options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of a parser's long options; argparse has no public list of them."""
    return [name for name in parser._option_string_actions if name.startswith("--")]


class ManualFormatter(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help formatter that keeps the layout of the description and omits empty defaults.

    jsonargparse appends the default in ``_expand_help``; no public method comes after it.
    """

    def _expand_help(self, action: argparse.Action) -> str:
        text = re.sub(r" \(default: (null|False)\)$", "", super()._expand_help(action))
        return re.sub(r", default: (null)?\)$", ")", text)


class ParseError(NamedTuple):
    """Content of an error message of the parser."""

    kind: Literal["value", "argument", "option", "field", "content", "other"]
    """Wrong value; unexpected argument; unknown option or field; a file without fields."""
    subject: str
    """The option, field, argument or content; "" if the message names none."""
    expected: str = ""
    """Expected type such as ``<class 'int'>``, or the whole message."""
    value: str = ""
    """The value received."""


def read_error(message: str) -> ParseError:
    """Parse the message of an ``argparse.ArgumentError``, which has no fields for its content."""
    wrong = re.match(r'(?s)Parser key "(.+?)":\s*Expected an? (.+)\. Got value: (.*)', message)
    if wrong:
        return ParseError("value", *wrong.groups())
    unknown = re.match(r"unrecognized arguments: (\S+)", message)
    if unknown:
        word = unknown[1]
        return (
            ParseError("option", word.partition("=")[0])
            if word[0] == "-"
            else ParseError("argument", word)
        )
    unknown = re.match(r"Group '(.+)' does not accept option '(.+)'", message)
    if unknown:
        return ParseError("field", f"{unknown[1]}.{unknown[2]}")
    unknown = re.match(r"Option '(.+)' is not accepted", message)
    if unknown:
        return ParseError("field", unknown[1])
    if message.startswith("Unexpected config:"):
        return ParseError("content", message.partition(":")[2].strip())
    named = re.match(r'(?s)(?:argument |Parser key "(.+?)":\s*)', message)
    if named:
        return ParseError("other", named[1] or "", message[named.end() :])
    return ParseError("other", "", message)
