"""Byte-pair codes as a SentencePiece model."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from keras_transformer.convert import bpe_codes
from keras_transformer.convert.bpe_codes import (
    BpeCodes,
    codes_model,
    differing_words,
    read_codes,
)
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.vocabulary_rows import NONE
from keras_transformer.data.foreign_sentencepiece import SpecialIds

MERGES = [("l", "o"), ("lo", "w</w>"), ("e", "r</w>"), ("n", "e"), ("ne", "w"), ("a", "a")]
FAIRSEQ = SpecialIds(pad=1, unknown=3, start=2, end=2)
TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "low", "lo@@", "w@@", "er", "new@@", "s", "a@@", "aa@@"]
VOCABULARY = {token: row for row, token in enumerate(TOKENS)}


@pytest.mark.parametrize(
    ("word", "tokens"),
    [
        ("low", ["low"]),
        ("lower", ["lo@@", "w@@", "er"]),
        ("newer", ["new@@", "er"]),
        ("s", ["s"]),
        ("aaas", ["aa@@", "a@@", "s"]),  # from the left
        ("loop", ["lo@@", "o@@", "p"]),
    ],
)
def test_codes_cut_words(word: str, tokens: list[str]) -> None:
    assert BpeCodes(MERGES).cut(word) == tokens


def test_unknown_tokens_are_split_again() -> None:
    known = frozenset({"lo@@", "w", "n@@", "e@@", "w@@"})
    assert BpeCodes(MERGES).cut("low", known) == ["lo@@", "w"]
    assert BpeCodes(MERGES).cut("newer", known) == ["n@@", "e@@", "w@@", "e@@", "r"]


def test_the_model_has_the_rows_of_the_vocabulary() -> None:
    codes = BpeCodes(MERGES)
    model = codes_model(codes, VOCABULARY, FAIRSEQ, split_unknown=False)
    (side,) = model.sides
    ((*ids,), (*others,)) = side.encode(["low  lower newer", "ne"])
    assert [TOKENS[model.embedded[number]] for number in ids] == [
        *("low", "lo@@", "w@@", "er", "new@@", "er")
    ]
    assert side.decode([ids])[0].strip() == "low lower newer"
    # n@@ and e are not in the vocabulary.
    assert [model.embedded[number] for number in others] == [3, 3]
    assert [model.scored[number] for number in others] == [NONE, NONE]


@pytest.mark.parametrize("split_unknown", [False, True])
def test_random_codes_cut_random_words_alike(
    split_unknown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bpe_codes, "SAMPLED_WORDS", 600)
    chosen = random.Random(3)
    symbols = ["a", "b", "c", "a</w>", "b</w>"]
    merges: list[tuple[str, str]] = []
    for _ in range(40):
        left = chosen.choice([symbol for symbol in symbols if not symbol.endswith("</w>")])
        right = chosen.choice(symbols)
        if left + right not in symbols:  # each result has one pair here
            merges.append((left, right))
            symbols.append(left + right)
    codes = BpeCodes(merges)
    words = ["".join(chosen.choices("abc", k=chosen.randint(1, 12))) for _ in range(300)]
    seen = {token for word in words[:100] for token in codes.cut(word)}
    singles = [f"{character}{mark}" for character in "abc" for mark in ("", "@@")]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *singles, *sorted(seen - set(singles))]
    vocabulary = {token: row for row, token in enumerate(tokens)}
    model = codes_model(codes, vocabulary, FAIRSEQ, split_unknown)
    known = frozenset(vocabulary) if split_unknown else None
    expected = [[vocabulary.get(token, 3) for token in codes.cut(word, known)] for word in words]
    found = [[model.embedded[number] for number in ids] for ids in model.sides[0].encode(words)]
    differing = sum(a != b for a, b in zip(expected, found, strict=True))
    # Codes of a real text have no such words; random ones have some, and they are noticed.
    counted, compared = differing_words(codes, model, vocabulary, split_unknown)
    assert compared > 600
    assert (differing > 0) <= (counted > 0)
    assert differing < 100


def test_words_that_are_cut_otherwise_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe_codes, "SAMPLED_WORDS", 200)
    # a + bc gives abc too, where the codes only know ab + c.
    codes = BpeCodes([("b", "c</w>"), ("a", "b"), ("ab", "c</w>")])
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "a@@", "bc", "ab@@", "c", "abc"]
    vocabulary = {token: row for row, token in enumerate(tokens)}
    model = codes_model(codes, vocabulary, FAIRSEQ, split_unknown=False)
    assert codes.cut("abc") == ["a@@", "bc"]
    assert differing_words(codes, model, vocabulary, split_unknown=False)[0] > 0


def test_files_of_both_programs(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    for text in ("#version: 0.2\nl o\nlo w</w>\n", "l o 12\nlo w</w> 3\n"):
        path.write_text(text)
        assert read_codes(path).merges == [("l", "o"), ("lo", "w</w>")]
    for text, message in (
        ("#version: 0.1\nl o\n", "version 0.1"),
        ("l\n", "line 1: expected two symbols"),
        ("\n", "expected byte-pair codes, got none"),
    ):
        path.write_text(text)
        with pytest.raises(ConvertError, match=message):
            read_codes(path)
