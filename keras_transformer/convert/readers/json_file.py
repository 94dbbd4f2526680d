"""JSON files: settings and vocabularies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.readers.vocabulary import check_ids


def parse_object(text: str | bytes, name: object) -> dict[str, Any]:
    """Return a JSON object, whose names must differ.

    Args:
        text: The JSON text.
        name: Its file, for messages.

    Raises:
        ConvertError: It is no JSON object, or has a name twice.
    """
    try:
        values = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise ConvertError(f"{name}: expected JSON: {error or 'nested too deeply'}") from None
    if not isinstance(values, dict):
        raise ConvertError(f"{name}: expected a JSON object, got {type(values).__name__}")
    return values


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} is there twice")
    return values


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        ConvertError: It cannot be read, or is no JSON object.
    """
    return parse_object(read_text(path), path)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the ids 0 to n - 1 of tokens in a JSON object.

    Raises:
        ConvertError: It cannot be read, or ids are missing or there twice.
    """
    return check_ids(list(read_object(path).items()), path)
