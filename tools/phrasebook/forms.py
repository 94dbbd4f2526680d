"""Word forms of the phrasebook grammar: inflection, articles and numbers.

English inflects and Chinese does not, so nearly everything here is English; the Chinese side
only needs its numbers and the choice between 二 and 两.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

# base: past, participle, gerund ("" where the regular rule gives the form).
_IRREGULAR: dict[str, tuple[str, str, str]] = {
    "be": ("was", "been", ""),
    "become": ("became", "become", ""),
    "break": ("broke", "broken", ""),
    "bring": ("brought", "brought", ""),
    "buy": ("bought", "bought", ""),
    "catch": ("caught", "caught", ""),
    "chat": ("chatted", "chatted", "chatting"),
    "choose": ("chose", "chosen", ""),
    "come": ("came", "come", ""),
    "do": ("did", "done", ""),
    "draw": ("drew", "drawn", ""),
    "drink": ("drank", "drunk", ""),
    "drive": ("drove", "driven", ""),
    "eat": ("ate", "eaten", ""),
    "feed": ("fed", "fed", ""),
    "find": ("found", "found", ""),
    "fly": ("flew", "flown", ""),
    "forget": ("forgot", "forgotten", "forgetting"),
    "get": ("got", "gotten", "getting"),
    "give": ("gave", "given", ""),
    "go": ("went", "gone", ""),
    "have": ("had", "had", ""),
    "hear": ("heard", "heard", ""),
    "know": ("knew", "known", ""),
    "leave": ("left", "left", ""),
    "lose": ("lost", "lost", ""),
    "make": ("made", "made", ""),
    "meet": ("met", "met", ""),
    "plan": ("planned", "planned", "planning"),
    "put": ("put", "put", "putting"),
    "read": ("read", "read", ""),
    "ride": ("rode", "ridden", ""),
    "run": ("ran", "run", "running"),
    "say": ("said", "said", ""),
    "see": ("saw", "seen", ""),
    "sell": ("sold", "sold", ""),
    "send": ("sent", "sent", ""),
    "sing": ("sang", "sung", ""),
    "sleep": ("slept", "slept", ""),
    "speak": ("spoke", "spoken", ""),
    "swim": ("swam", "swum", "swimming"),
    "take": ("took", "taken", ""),
    "teach": ("taught", "taught", ""),
    "tell": ("told", "told", ""),
    "think": ("thought", "thought", ""),
    "understand": ("understood", "understood", ""),
    "wear": ("wore", "worn", ""),
    "write": ("wrote", "written", ""),
}
_THIRD = {"be": "is", "have": "has", "do": "does", "go": "goes"}
_PLURALS = {
    "child": "children",
    "fish": "fish",
    "knife": "knives",
    "man": "men",
    "mouse": "mice",
    "policeman": "policemen",
    "scarf": "scarves",
    "sheep": "sheep",
    "wolf": "wolves",
    "woman": "women",
    "mango": "mangoes",
    "tomato": "tomatoes",
    "potato": "potatoes",
}
# Spelt with a vowel but spoken with a consonant, and the reverse.
_SPOKEN_CONSONANT = ("uni", "use", "euro", "one")
_SPOKEN_VOWEL = ("hour", "honest")

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = [
    "zero",
    "ten",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
]
_DIGITS = "零一二三四五六七八九"


@dataclass(frozen=True)
class Verb:
    """The five forms of an English verb."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str


def _ends_in_y(word: str) -> bool:
    """Return whether a final y follows a consonant and therefore changes (carry, carries)."""
    return word.endswith("y") and word[-2] not in "aeiou"


def _with_s(word: str) -> str:
    if _ends_in_y(word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


@cache
def conjugate(base: str) -> Verb:
    """Give the forms of a verb by rule, or from the list of irregular ones."""
    if base.endswith("e"):
        regular = base + "d"
    else:
        regular = (base[:-1] + "ied") if _ends_in_y(base) else base + "ed"
    stem = base[:-1] if base.endswith("e") and not base.endswith(("ee", "be")) else base
    past, participle, gerund = _IRREGULAR.get(base, ("", "", ""))
    return Verb(
        base,
        _THIRD.get(base, _with_s(base)),
        past or regular,
        participle or regular,
        gerund or stem + "ing",
    )


def plural(noun: str) -> str:
    """Give the plural; of "cup of tea" the first word changes, of "post office" the last."""
    head, of, rest = noun.partition(" of ")
    *before, last = head.split(" ")
    return " ".join([*before, _PLURALS.get(last) or _with_s(last)]) + of + rest


def with_article(words: str) -> str:
    """Put a or an before words, by the sound that they begin with."""
    lower = words.lower()
    vowel = lower.startswith(_SPOKEN_VOWEL) or (
        lower[0] in "aeiou" and not lower.startswith(_SPOKEN_CONSONANT)
    )
    return f"{'an' if vowel else 'a'} {words}"


def english_number(number: int) -> str:
    """Spell a number from 0 to 999."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    return f"{_ONES[hundreds]} hundred" + (f" and {english_number(rest)}" if rest else "")


def ordinal(number: int) -> str:
    """Spell an ordinal from first to ninety-ninth."""
    *before, last = english_number(number).split("-")
    special = {
        "one": "first",
        "two": "second",
        "three": "third",
        "five": "fifth",
        "eight": "eighth",
        "nine": "ninth",
        "twelve": "twelfth",
    }
    spelt = special.get(last) or (last[:-1] + "ieth" if last.endswith("y") else last + "th")
    return "-".join([*before, spelt])


def chinese_number(number: int) -> str:
    """Write a number from 0 to 999 in Chinese characters, as it is read aloud."""
    if number < 10:
        return _DIGITS[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return (_DIGITS[tens] if tens > 1 else "") + "十" + (_DIGITS[ones] if ones else "")
    hundreds, rest = divmod(number, 100)
    text = ("两" if hundreds == 2 else _DIGITS[hundreds]) + "百"
    if not rest:
        return text
    if rest < 10:
        return text + "零" + _DIGITS[rest]
    return text + ("一" if rest < 20 else "") + chinese_number(rest)


def chinese_count(number: int) -> str:
    """Write a number before a measure word, where two is 两 and not 二."""
    return "两" if number == 2 else chinese_number(number)


_NEGATED = (
    *((f"{verb} not ", f"{verb}n't ") for verb in ("is", "are", "was", "were", "do", "does")),
    *((f"{verb} not ", f"{verb}n't ") for verb in ("did", "has", "have", "should")),
    ("cannot ", "can't "),
    ("will not ", "won't "),
)
# Only before another word: "I know where he is." cannot be shortened.
_JOINED = re.compile(
    r"\b(I) am (?=\w)|\b([Hh]e|[Ss]he|[Ii]t) is (?=\w)|\b([Yy]ou|[Ww]e|[Tt]hey) are (?=\w)"
)


def _join(match: re.Match[str]) -> str:
    first, third, plural_ = match.groups()
    return f"{first}'m " if first else f"{third}'s " if third else f"{plural_}'re "


def contract(text: str) -> str:
    """Shorten an English sentence as it is spoken: do not → don't, I am → I'm."""
    if "not " in text:
        for full, short in _NEGATED:
            text = text.replace(full, short).replace(full.capitalize(), short.capitalize())
    return _JOINED.sub(_join, text)
