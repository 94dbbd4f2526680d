"""The built-in corpus: English sentences with their Chinese translations.

Simple sentences from a vocabulary of about a thousand words, so that a model can be trained
without any download. A grammar (``tools/phrasebook`` in the repository) generated both sides of
each pair together, so every translation is correct by construction.
"""

from __future__ import annotations

import bz2
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("phrasebook.txt.bz2")
"""Three columns, separated by blank lines: split, English, Chinese. Columns compress better
than rows."""

SPLITS = ("train", "dev", "test")


def pairs(split: str) -> list[tuple[str, str]]:
    """Return one split of the phrasebook.

    The splits share no sentence, even without regard to case and final punctuation. Sentences in
    dev and test are new combinations of words from the training split.

    Args:
        split: "train", "dev" or "test".

    Returns:
        (English, Chinese) pairs in a fixed order.

    Raises:
        ValueError: The split does not exist.
    """
    if split not in SPLITS:
        raise ValueError(f"split of builtin:phrasebook: expected train, dev or test, got {split!r}")
    return [(english, chinese) for name, english, chinese in _rows() if name == split]


@cache
def _rows() -> list[tuple[str, str, str]]:
    columns = bz2.decompress(FILE.read_bytes()).decode().split("\n\n")
    splits, english, chinese = (column.splitlines() for column in columns)
    return list(zip(splits, english, chinese, strict=True))
