"""Prepared data of a run folder: tokenizer, encoded pairs, dev text and report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_transformer.data.errors import DataError
from keras_transformer.data.pairs import Pair
from keras_transformer.data.store import EncodedStore
from keras_transformer.data.tokenizer import Tokenizer

FINGERPRINT = "fingerprint.json"
"""Name of the file that is written last; without it the other files are ignored."""
REPORT = "report.json"
DEV_TEXT = "dev.text.json"


@dataclass(frozen=True)
class Prepared:
    """The data that training reads, made by ``prepare``."""

    tokenizer: Tokenizer
    """Tokenizer of both languages."""
    train: EncodedStore
    """Training pairs."""
    dev: EncodedStore
    """Held-out pairs, truncated to ``max_tokens``."""
    dev_pairs: list[Pair]
    """The text of ``dev``, pair by pair."""
    report: dict[str, Any]
    """Counts of pairs read, kept and dropped, with reasons."""


def load(directory: Path) -> Prepared:
    """Load the data that ``prepare`` wrote to a run folder.

    Raises:
        DataError: Files are missing or damaged, or the tokenizer is another one.
        StoreError: The encoded pairs are damaged.
        TokenizerError: The tokenizer is damaged.
    """
    data = directory / "data"
    tokenizer = Tokenizer.load(directory / "tokenizer")
    if tokenizer.fingerprint != read_json(data / FINGERPRINT).get("tokenizer"):
        raise DataError(
            f"{directory / 'tokenizer'}: expected the tokenizer that {data} was encoded with, "
            "got another one"
        )
    return Prepared(
        tokenizer=tokenizer,
        train=EncodedStore(data / "train"),
        dev=EncodedStore(data / "dev"),
        dev_pairs=load_dev_pairs(directory),
        report=read_json(data / REPORT),
    )


def load_dev_pairs(directory: Path) -> list[Pair]:
    """Load the text of the held-out pairs that ``prepare`` wrote to a run folder.

    Raises:
        DataError: The file is missing or damaged.
    """
    rows = read_json(directory / "data" / DEV_TEXT)
    return [Pair(line, source, target) for line, source, target in rows]


def read_json(path: Path) -> Any:
    """Read a JSON file that ``prepare`` wrote.

    Raises:
        DataError: The file is missing or damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected a file of prepared data, got {error}") from None
