"""The kinds of words in the phrasebook, and the draws that put them into slots.

Words are compared by identity: each is made once, in its table.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .forms import Verb, chinese_count, conjugate, english_number, plural, with_article


class _Entry(Protocol):
    @property
    def en(self) -> str: ...


Item = TypeVar("Item")
Word = TypeVar("Word", bound=_Entry)
Pair = tuple[str, str]  # English, Chinese


@dataclass(frozen=True, eq=False)
class Phrase:
    """Words that do not inflect: a time, a place, a city."""

    en: str
    zh: str


@dataclass(frozen=True, eq=False)
class Noun:
    """A thing that is counted: kind says which adjectives suit it, measure is its 量词."""

    en: str
    zh: str
    measure: str
    kind: str

    @property
    def plural(self) -> str:
        return plural(self.en)


@dataclass(frozen=True, eq=False)
class Adjective:
    """A property: en and zh as predicate, attribute as it stands before a Chinese noun.

    `mild` marks those of which 有点 can be said: it suits what is not wished for.
    """

    en: str
    zh: str
    attribute: str
    comparative: str
    mild: bool = False

    @property
    def superlative(self) -> str:
        if self.comparative.startswith("more "):
            return self.comparative.replace("more ", "most ")
        return {"better": "best", "worse": "worst"}.get(
            self.comparative, self.comparative[:-1] + "st"
        )

    @property
    def negated(self) -> str:
        """有意思 is negated by 没, everything else by 不."""
        return ("没" if self.zh.startswith("有") else "不") + self.zh


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody as subject, object and owner; person is 1, 2 or 3, many is grammatical number."""

    en: str
    zh: str
    object: str
    possessive: str
    person: int = 3
    many: bool = False
    pronoun: str = ""
    pronoun_zh: str = ""

    @property
    def zh_possessive(self) -> str:
        return self.zh + "的"

    @property
    def independent(self) -> str:
        """The possessive that stands alone: mine, yours, Tom's."""
        alone = {"my": "mine", "your": "yours", "her": "hers", "our": "ours", "their": "theirs"}
        return alone.get(self.possessive, self.possessive)

    @property
    def singular3(self) -> bool:
        return self.person == 3 and not self.many

    @property
    def be(self) -> str:
        return "am" if self.en == "I" else "is" if self.singular3 else "are"

    @property
    def was(self) -> str:
        return "was" if self.en == "I" or self.singular3 else "were"

    @property
    def do(self) -> str:
        return "does" if self.singular3 else "do"

    @property
    def have(self) -> str:
        return "has" if self.singular3 else "have"

    def present(self, verb: str | Verb) -> str:
        """Give the verb in the present tense as it agrees with this subject."""
        forms = conjugate(verb) if isinstance(verb, str) else verb
        return forms.third if self.singular3 else forms.base

    def owns(self, noun: Noun) -> Pair:
        """Give "my book" and 我的书."""
        return f"{self.possessive} {noun.en}", self.zh_possessive + noun.zh


@dataclass(frozen=True, eq=False)
class Action:
    """A verb phrase in both languages.

    Chinese splits into verb and object because 了, 过 and durations stand between them.
    `weak` is the object in questions and negations, where 一本书 becomes 书. A `bounded` action
    takes 了 behind the verb (买了一本书), another one at the end (游泳了).
    """

    verb: Verb
    rest: str
    zh_verb: str
    zh_object: str
    weak: str
    bounded: bool = False
    skill: bool = False

    @property
    def en(self) -> str:
        return self.verb.base + self.rest

    @property
    def past(self) -> str:
        return self.verb.past + self.rest

    @property
    def participle(self) -> str:
        return self.verb.participle + self.rest

    @property
    def gerund(self) -> str:
        return self.verb.gerund + self.rest

    def present(self, person: Person) -> str:
        return person.present(self.verb) + self.rest

    @property
    def zh(self) -> str:
        return self.zh_verb + self.zh_object

    @property
    def zh_weak(self) -> str:
        return self.zh_verb + self.weak

    @property
    def zh_done(self) -> str:
        if self.bounded:
            return f"{self.zh_verb}了{self.zh_object}"
        return self.zh + "了"


def read_nouns(kind: str, table: str) -> tuple[Noun, ...]:
    """Read "English,Chinese,measure word; …"."""
    entries = (entry.split(",") for entry in table.replace("\n", " ").split(";"))
    return tuple(Noun(en.strip(), zh, measure, kind) for en, zh, measure in entries)


def read_phrases(table: str) -> tuple[Phrase, ...]:
    """Read "English,Chinese; …"."""
    entries = (entry.split(",") for entry in table.replace("\n", " ").split(";"))
    return tuple(Phrase(en.strip(), zh) for en, zh in entries)


def read_adjectives(table: str) -> tuple[Adjective, ...]:
    """Read lines of: English, Chinese, attribute, comparative ("-": with more), * for mild."""
    found = []
    for line in table.strip().splitlines():
        en, zh, attribute, comparative, *mild = line.strip().split(",")
        comparative = f"more {en}" if comparative == "-" else comparative
        found.append(Adjective(en, zh, attribute, comparative, bool(mild)))
    return tuple(found)


def indefinite(noun: Noun, adjective: Adjective | None = None) -> Pair:
    """Give "a red shirt" and 一件红色的衬衫."""
    before, zh_before = (f"{adjective.en} ", adjective.attribute) if adjective else ("", "")
    return with_article(before + noun.en), f"一{noun.measure}{zh_before}{noun.zh}"


def counted(number: int, noun: Noun) -> Pair:
    """Give "three books" and 三本书."""
    if number == 1:
        return f"one {noun.en}", f"一{noun.measure}{noun.zh}"
    return (
        f"{english_number(number)} {noun.plural}",
        chinese_count(number) + noun.measure + noun.zh,
    )


class Draw:
    """A seeded source of choices that remembers which words filled the slots.

    Calling it draws a word whose identity is part of the combination that is later kept for
    training or held out; `form` draws what is no part of it: tense, time, degree. Only
    `random.Random.random` is used, the one method whose sequence Python promises to keep.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # a str seed does not depend on PYTHONHASHSEED
        self._drawn: set[str] = set()

    def __call__(self, words: Sequence[Word]) -> Word:
        word = self.form(words)
        self._drawn.add(word.en)
        return word

    def form(self, choices: Sequence[Item]) -> Item:
        return choices[int(self._random.random() * len(choices))]

    def other(self, words: Sequence[Word], first: Word) -> Word:
        """Draw a word that is neither first nor a kind of it (green tea is tea)."""
        parts = [word for word in words if word.en not in first.en and first.en not in word.en]
        return self(parts)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def remember(self, name: str) -> None:
        """Count name as part of the combination."""
        self._drawn.add(name)

    def take(self) -> frozenset[str]:
        """Give the combination drawn since the last call, and forget it."""
        combination = frozenset(self._drawn)
        self._drawn.clear()
        return combination
