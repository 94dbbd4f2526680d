"""YAML files: settings and vocabularies of Marian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.readers.vocabulary import check_ids

# Libyaml in C is 20 times as fast, and optional.
_TEXT_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# YAML takes them for line ends, and Marian writes them as they are. They are replaced by
# characters for private use while the file is parsed.
_LINE_ENDS = {"\x85": "\U0010fff0", "\u2028": "\U0010fff1", "\u2029": "\U0010fff2"}


def parse_settings(text: str | bytes, name: object) -> dict[str, Any]:
    """Return the settings in a YAML mapping, built of plain values only.

    Args:
        text: The YAML text.
        name: Its file, for messages.

    Raises:
        ConvertError: It is no YAML mapping.
    """
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConvertError(f"{name}: expected YAML: {_first_line(error)}") from None
    if not isinstance(values, dict):
        raise ConvertError(f"{name}: expected a YAML mapping, got {type(values).__name__}")
    return values


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a YAML file.

    Raises:
        ConvertError: It cannot be read, or is no YAML mapping.
    """
    return parse_settings(read_text(path), path)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the ids 0 to n - 1 of tokens in a YAML mapping.

    Each key is a text, as quoted, escaped or plain: a plain ``null``, ``true`` or ``1_000`` is the
    token of that spelling.

    Raises:
        ConvertError: It cannot be read, or ids are missing or there twice.
    """
    text = read_text(path)
    for character, stand_in in _LINE_ENDS.items():
        if stand_in in text:
            raise ConvertError(f"{path}: expected no character U+{ord(stand_in):X}, found one")
        text = text.replace(character, stand_in)
    try:
        node = yaml.compose(text, Loader=_TEXT_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConvertError(f"{path}: expected YAML: {_first_line(error)}") from None
    if not isinstance(node, yaml.MappingNode):
        raise ConvertError(f"{path}: expected a YAML mapping of tokens to ids, got another value")
    return check_ids([(_token(key, path), _id(value, path)) for key, value in node.value], path)


def _token(node: yaml.Node, path: Path) -> str:
    token = _scalar(node, path)
    for character, stand_in in _LINE_ENDS.items():
        token = token.replace(stand_in, character)
    return token


def _id(node: yaml.Node, path: Path) -> int:
    text = _scalar(node, path)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConvertError(f"{path}: expected whole numbers as ids, got {text!r}")
    return int(text)


def _scalar(node: yaml.Node, path: Path) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ConvertError(f"{path}: expected tokens and ids, got a nested value among them")
    return str(node.value)


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or "nested too deeply"
