"""The built-in corpus: English sentences with their Chinese translations, made by a grammar.

The grammar combines about a thousand words in patterns of simple sentences and writes each
sentence in both languages at once, so that the translation is right by construction. Every
English sentence has one translation. The corpus lets a model be trained without any download.
"""

from __future__ import annotations

from .sentences import splits

__all__ = ["pairs"]


def pairs(split: str) -> list[tuple[str, str]]:
    """Give one part of the phrasebook.

    The parts share no sentence, whatever its case and final mark, and the development and test
    sentences combine known words as no training sentence does.

    Args:
        split: "train", "dev" or "test".

    Returns:
        (English, Chinese) pairs, always the same and in the same order.

    Raises:
        ValueError: There is no such part.
    """
    parts = splits() if split in ("train", "dev", "test") else {}
    if split not in parts:
        raise ValueError(f"split of builtin:phrasebook: expected train, dev or test, got {split!r}")
    return list(parts[split])
