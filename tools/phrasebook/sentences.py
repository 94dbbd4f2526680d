"""Sentences drawn from the patterns, divided into training, development and test sets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from . import (
    belongings,
    dates,
    describe,
    exchanges,
    habits,
    journeys,
    linking,
    manner,
    phrases,
    questions,
    relations,
    requests,
    sequence,
    surroundings,
    tenses,
    thoughts,
)
from .forms import contract
from .sense import sensible
from .words import Draw, Pair

_MODULES = (
    tenses,
    habits,
    manner,
    questions,
    requests,
    describe,
    belongings,
    journeys,
    surroundings,
    exchanges,
    relations,
    linking,
    sequence,
    thoughts,
    dates,
)
# Sentences drawn from a pattern of weight 1; attempts are bounded where a pattern holds fewer.
_SHARE = 400
_ATTEMPTS = 3
_HELD_OUT = 1000  # sentences in dev, and as many in test
# Of a thousand combinations of words, how many may only be used in dev, and in test.
_PER_MILLE = 34
# Of a hundred statements, how many are also given without the final stop.
_UNSTOPPED = 13
_SPREAD = 0x9E3779B97F4A7C15  # odd: moves the sentence without its stop away from its twin
_MARKS = {".": "。", "?": "？", "!": "！"}


class Sentence(NamedTuple):
    """A pair with the words that were combined in it and the pattern that combined them."""

    english: str
    chinese: str
    combination: str
    pattern: str


def stable_hash(text: str) -> int:
    """Hash text to the same number in every process and on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def normalised(text: str) -> str:
    """Drop the final mark and the case: what is left must not be shared between the splits."""
    return text.rstrip(".?!。？！").lower()


def words_of(english: str) -> list[str]:
    """Split an English sentence into lower-case words."""
    return normalised(english).replace(",", "").split()


def _finish(pair: Pair) -> Pair:
    """Begin with a capital and end with a mark, the same in both languages."""
    english, chinese = pair
    english = english[0].upper() + english[1:]
    if english[-1] not in _MARKS:
        return english + ".", chinese + "。"
    return english, chinese


def _draw_from(
    pattern: Callable[[Draw], Pair], name: str, number: int, seen: dict[str, str]
) -> list[Sentence]:
    """Draw up to number new sentences from one pattern."""
    draw = Draw(name)
    sentences: list[Sentence] = []
    for _ in range(number * _ATTEMPTS):
        if len(sentences) == number:
            break
        english, chinese = _finish(pattern(draw))
        words = draw.take()
        if draw.chance(0.4):
            english = contract(english)
        key = normalised(english)
        if key not in seen and sensible(words):
            combination = "|".join(sorted(words))
            seen[key] = chinese
            sentences.append(Sentence(english, chinese, combination, name))
    return sentences


@cache
def all_sentences() -> tuple[Sentence, ...]:
    """Draw every sentence of the phrasebook, each English one once."""
    sentences = [Sentence(en, zh, "", "phrases") for en, zh in phrases.fixed()]
    seen = {normalised(sentence.english): sentence.chinese for sentence in sentences}
    for module in _MODULES:
        for pattern, weight in module.PATTERNS:
            short = module.__name__.rpartition(".")[2]
            name = f"{short}.{pattern.__name__.lstrip('_')}"
            sentences += _draw_from(pattern, name, round(_SHARE * weight), seen)
    return tuple(sentences)


def _unstopped(english: str, order: int) -> bool:
    return english.endswith(".") and order % 100 < _UNSTOPPED


def _without_stop(pair: Pair) -> Pair:
    return pair[0][:-1], pair[1][:-1]


def _training(sentences: list[Sentence]) -> list[Pair]:
    """Mix the sentences, and add some of them without their stop."""
    numbered = []
    for sentence in sentences:
        pair, order = (sentence.english, sentence.chinese), stable_hash(sentence.english)
        numbered.append((order, pair))
        phrase = sentence.pattern == "phrases" and sentence.english[-1] != "?"
        if phrase or _unstopped(sentence.english, order):
            numbered.append((order * _SPREAD % 2**64, _without_stop(pair)))
    return [pair for _, pair in sorted(numbered)]


class _Known:
    """The words, characters and translations that have been used."""

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._characters: set[str] = set()
        self._translations: set[str] = set()

    def add(self, pairs: list[Pair]) -> None:
        self._words.update(*(words_of(english) for english, _ in pairs))
        self._characters.update("".join(chinese for _, chinese in pairs))
        self._translations.update(normalised(chinese) for _, chinese in pairs)

    def allows(self, sentence: Sentence) -> bool:
        return (
            self._words.issuperset(words_of(sentence.english))
            and self._characters.issuperset(sentence.chinese)
            and normalised(sentence.chinese) not in self._translations
        )


def _held_out(candidates: list[Sentence], known: _Known) -> list[Pair]:
    """Choose from sentences whose combinations are new but whose every word is known."""
    pairs: list[Pair] = []
    orders = {sentence: stable_hash(sentence.english) for sentence in candidates}
    for sentence in sorted(candidates, key=lambda sentence: orders[sentence]):
        if known.allows(sentence):
            pair = sentence.english, sentence.chinese
            stopped = not _unstopped(sentence.english, orders[sentence])
            pairs.append(pair if stopped else _without_stop(pair))
        if len(pairs) == _HELD_OUT:
            break
    known.add(pairs)
    return pairs


@cache
def splits() -> dict[str, tuple[Pair, ...]]:
    """Divide all sentences by their combinations of words.

    A combination is held out whole: with it go all tenses, questions and negations that say the
    same of the same people and things.
    """
    parts: dict[str, list[Sentence]] = {"train": [], "dev": [], "test": []}
    for sentence in all_sentences():
        place = stable_hash(sentence.combination) % 1000 if sentence.combination else 1000
        part = "test" if place < _PER_MILLE else "dev" if place < 2 * _PER_MILLE else "train"
        parts[part].append(sentence)
    known, train = _Known(), _training(parts["train"])
    known.add(train)
    dev = _held_out(parts["dev"], known)
    test = _held_out(parts["test"], known)
    return {"train": tuple(train), "dev": tuple(dev), "test": tuple(test)}
