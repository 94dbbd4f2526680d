"""Exclusions: words that fit their slots but do not belong in one sentence."""

from __future__ import annotations

_YOUNG = {"the boy", "the girl", "the children", "boy", "girl", "child"}
_GROWN_UP = {
    "beer",
    "wine",
    "glass of wine",
    "bottle of wine",
    "bottle of beer",
    "drive",
    "work",
    "have a meeting",
    "car",
    "truck",
    "motorcycle",
}
_EYES_ON_THE_ROAD = {"drive", "run", "take a walk"}
_WATCHING = {"watch TV"}
_EXCLUSIONS: tuple[tuple[set[str], set[str]], ...] = (
    (_YOUNG, _GROWN_UP),
    (_EYES_ON_THE_ROAD, _WATCHING),
)


def sensible(words: frozenset[str]) -> bool:
    """Return whether no words that exclude each other were drawn together."""
    return not any(words & first and words & second for first, second in _EXCLUSIONS)
