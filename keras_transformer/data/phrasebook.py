"""The built-in corpus: English sentences with their Chinese translations.

Simple sentences of about a thousand words, so that a model can be trained without any
download. A grammar wrote both sides of each pair at once (``tools/phrasebook`` in the
repository): the translation is right by construction, and every English sentence has one.
"""

from __future__ import annotations

import bz2
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("phrasebook.txt.bz2")
"""Three columns one after the other, parted by blank lines: split, English, Chinese. Columns
compress better than rows."""

SPLITS = ("train", "dev", "test")


def pairs(split: str) -> list[tuple[str, str]]:
    """Return one split of the phrasebook.

    The splits share no sentence, whatever its case and final mark. Sentences in dev and test
    combine known words as no training sentence does.

    Args:
        split: "train", "dev" or "test".

    Returns:
        (English, Chinese) pairs, always the same and in the same order.

    Raises:
        ValueError: There is no such split.
    """
    if split not in SPLITS:
        raise ValueError(f"split of builtin:phrasebook: expected train, dev or test, got {split!r}")
    return [(english, chinese) for name, english, chinese in _rows() if name == split]


@cache
def _rows() -> list[tuple[str, str, str]]:
    columns = bz2.decompress(FILE.read_bytes()).decode().split("\n\n")
    splits, english, chinese = (column.splitlines() for column in columns)
    return list(zip(splits, english, chinese, strict=True))
