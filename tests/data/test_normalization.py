from __future__ import annotations

import unicodedata

import pytest
import sentencepiece

from keras_transformer.data import normalization


@pytest.fixture(scope="module")
def normalize():
    sentencepiece.set_min_log_level(2)
    return normalization.normalizer(space_marks=False).Normalize


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("e\u0301te\u0301", "\u00e9t\u00e9"),  # decomposed accents
        ("e\u0302\u0323", "\u1ec7"),  # two marks, in either order,
        ("e\u0323\u0302", "\u1ec7"),
        ("\u00ea\u0323", "\u1ec7"),  # or one of them composed already
        ("\u1112\u1161\u11ab", "\ud55c"),  # Korean letters to a syllable
        ("\ud558\u11ab", "\ud55c"),
        ("\uff21\uff22\uff11", "AB1"),  # full-width letters and digits
        ("\ufb01n", "fin"),  # ligature
        ("a\u00a0b\u3000c\u202fd", "a b c d"),  # other spaces
        ("a\u200bb\ufeffc\u00add", "abcd"),  # zero-width
        ("a\tb\rc\u2028d\x85e", "a b c d e"),  # controls that separate
        ("a\x01b\x7fc", "abc"),  # controls that do not
        ("  a   b ", "a b"),
        ("\u2581a\u2581", "_a_"),  # SentencePiece's own mark for a space
        ("\uff8a\uff9f", "\u30d1"),  # half-width katakana with its sound mark
    ],
)
def test_equivalent_texts_become_equal(normalize, before: str, after: str) -> None:
    assert normalize(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "你好，世界。真的？是！：；（一）～",  # full-width punctuation
        "等等……",
        "ㅋㅋㅋ ㅠㅠ",  # free-standing Korean letters
        "\u00b4 \u00a8",  # free-standing accents
        "می\u200cخواهم",  # zero-width non-joiner, part of Persian spelling
        "👩\u200d👩\u200d👧 ❤\ufe0f",  # emoji sequences
        "„Straße“ – l’été",
        "שלום עולם",
    ],
)
def test_exceptions_to_nfkc_are_unchanged(normalize, text: str) -> None:
    assert normalize(text) == text


def test_every_composed_character_has_one_spelling(normalize) -> None:
    # All of Latin, Greek, Cyrillic, kana and Korean: NFD and NFC come out the same.
    text = [chr(c) for c in (*range(0xC0, 0x500), *range(0x1E00, 0x2000), *range(0xAC00, 0xD7A4))]
    different = [
        character
        for character in text
        if normalize(unicodedata.normalize("NFD", character)) != normalize(character)
        and normalization.rules().get(character) != ""
    ]
    assert different == []


def test_normalizing_twice_changes_nothing_more() -> None:
    table = normalization.rules()
    unstable = {
        before: after for before, after in table.items() if table.get(after, after) != after
    }
    assert unstable == {}


def test_rules_cover_single_characters_and_sequences() -> None:
    rules = normalization.rules()
    assert rules["\uff21"] == "A"
    assert rules["e\u0301"] == "\u00e9"
    assert rules["\u200b"] == ""
    assert "\0" not in rules  # SentencePiece cannot hold it
    assert 20_000 < len(rules) < 40_000
