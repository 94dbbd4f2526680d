"""Prepared data of a run folder: tokenizer, encoded pairs, dev text and report."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.data.errors import DataError
from keras_transformer.data.pairs import Pair
from keras_transformer.data.store import EncodedStore
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.system import FileError

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
    dev_pairs, dev = load_dev_pairs(directory), EncodedStore(data / "dev")
    if len(dev_pairs) != len(dev):
        raise DataError(
            f"{data / DEV_TEXT}: expected the {len(dev)} pairs of {data / 'dev'}.*, got "
            f"{len(dev_pairs)}"
        )
    if tokenizer.fingerprint != read_json(data / FINGERPRINT).get("tokenizer"):
        raise DataError(
            f"{directory / 'tokenizer'}: expected the tokenizer that {data} was encoded with, "
            "got another one"
        )
    return Prepared(
        tokenizer=tokenizer,
        train=EncodedStore(data / "train"),
        dev=dev,
        dev_pairs=dev_pairs,
        report=read_json(data / REPORT),
    )


def link_prepared(source: Path, directory: Path) -> None:
    """Link the prepared data of a run folder into another, which then needs the first no more.

    The files are copied where hard links are not possible. No file of prepared data is ever
    changed in place, so links are as good as copies.

    Args:
        source: A run folder with prepared data.
        directory: A folder without any.

    Raises:
        FileError: The files cannot be read or written.
    """
    try:
        for folder in ("tokenizer", "data"):
            shutil.copytree(source / folder, directory / folder, copy_function=_link_or_copy)
    except (OSError, shutil.Error) as error:
        raise FileError(f"{directory}: the data of {source} cannot be linked: {error}") from error


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def load_dev_pairs(directory: Path) -> list[Pair]:
    """Load the text of the held-out pairs that ``prepare`` wrote to a run folder.

    Raises:
        DataError: The file is missing or damaged.
    """
    path = directory / "data" / DEV_TEXT
    rows = read_json(path, list)
    try:
        return [Pair(int(line), str(source), str(target)) for line, source, target in rows]
    except (TypeError, ValueError):
        raise DataError(f"{path}: expected rows of line, source and target") from None


def read_json(path: Path, kind: type = dict) -> Any:
    """Read a JSON file that ``prepare`` wrote.

    Args:
        path: The file.
        kind: Type of its contents.

    Raises:
        DataError: The file is missing or damaged.
    """
    try:
        values = json.loads(system.read_text(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected a file of prepared data, got {error}") from None
    if not isinstance(values, kind):
        raise DataError(f"{path}: expected a file of prepared data, got {values!r:.50}")
    return values
