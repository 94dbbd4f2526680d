"""Sentence pairs from which the models of the conversion proof learn.

``made_up`` needs no corpus: English and German sentences from a small grammar. Golden files of
the test suite come from it, because they must not hold text of a corpus.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

Pairs = list[tuple[str, str]]
WORDS = 2_000
"""Pairs that ``write_words`` writes."""

_SUBJECTS = [
    ("The cat", "Die Katze"),
    ("A dog", "Ein Hund"),
    ("My sister", "Meine Schwester"),
    ("The old man", "Der alte Mann"),
    ("Our neighbour", "Unser Nachbar"),
    ("The girl", "Das Mädchen"),
    ("The teacher", "Die Lehrerin"),
    ("The gardener", "Der Gärtner"),
]
_VERBS = [
    ("sees", "sieht"),
    ("finds", "findet"),
    ("paints", "malt"),
    ("carries", "trägt"),
    ("likes", "mag"),
    ("cleans", "putzt"),
]
_OBJECTS = [
    ("the red house", "das rote Haus"),
    ("a small bird", "einen kleinen Vogel"),
    ("the green book", "das grüne Buch"),
    ("two apples", "zwei Äpfel"),
    ("the long bridge", "die lange Brücke"),
    ("a white boat", "ein weißes Boot"),
    ("my shoes", "meine Schuhe"),
]
_PLACES = [
    ("", ""),
    (" in the garden", " im Garten"),
    (" near the river", " am Fluss"),
    (" today", " heute"),
    (" every morning", " jeden Morgen"),
    (" at night", " nachts"),
]
_ENDS = [(".", "."), ("!", "!")]


def made_up(count: int, seed: int) -> Pairs:
    """Return different pairs of the grammar, in random order."""
    parts = list(itertools.product(_SUBJECTS, _VERBS, _OBJECTS, _PLACES, _ENDS))
    chosen = random.Random(seed).sample(parts, count)
    return [
        (f"{s[0]} {v[0]} {o[0]}{p[0]}{e[0]}", f"{s[1]} {v[1]} {o[1]}{p[1]}{e[1]}")
        for s, v, o, p, e in chosen
    ]


def multi30k(folder: Path, split: str, count: int) -> Pairs:
    """Return the first pairs of a split of Multi30k, English and German, without odd spaces.

    Args:
        folder: The one that holds ``multi30k/``.
        split: train, val or test_2016_flickr.
        count: Pairs.
    """
    sides = []
    for language in ("en", "de"):
        file = folder / "multi30k" / f"{split}.{language}"
        if not file.is_file():
            raise SystemExit(f"{file}: not found; name the folder of multi30k by --data")
        sides.append([" ".join(line.split()) for line in _lines(file)])
    return [pair for pair in zip(*sides, strict=True) if all(pair)][:count]


def read_pairs(settings: dict[str, str], split: str) -> Pairs:
    """Read the pairs that the command wrote for a peer.

    Args:
        settings: ``text`` is the folder with SPLIT.source and SPLIT.target.
        split: train or test.
    """
    sides = (_lines(Path(settings["text"]) / f"{split}.{side}") for side in ("source", "target"))
    return list(zip(*sides, strict=True))


def write_pairs(folder: Path, split: str, pairs: Pairs) -> None:
    """Write pairs so that ``read_pairs`` finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{split}.{side}").write_text(text, encoding="utf-8")


def write_words(settings: dict[str, str], words: Callable[[int, str], Sequence[str]]) -> None:
    """Write the pairs for models that read words: words.SPLIT.source and .target.

    Args:
        settings: As in ``read_pairs``.
        words: From the side, 0 or 1, and a line to its words.
    """
    for split in ("train", "test"):
        pairs = [
            (" ".join(words(0, source)), " ".join(words(1, target)))
            for source, target in read_pairs(settings, split)[:WORDS]
        ]
        write_pairs(Path(settings["text"]), f"words.{split}", pairs)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").rstrip("\n").split("\n")
