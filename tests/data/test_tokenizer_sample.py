from __future__ import annotations

import pytest

from keras_transformer.data import tokenizer_sample
from keras_transformer.data.tokenizer_sample import consume, replace_rare_characters, sample


def test_a_corpus_within_the_limit_is_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("ab", "c"), ("ä", "我"), ("ab", "c")]
    # In UTF-8 2 + 1, 2 + 3 and 2 + 1 bytes, and 16 for each of six lines.
    monkeypatch.setattr(tokenizer_sample, "_SAMPLE_BYTES", 11 + 6 * 16)
    assert sample(iter(pairs)) == pairs
    monkeypatch.setattr(tokenizer_sample, "_SAMPLE_BYTES", 11 + 6 * 16 - 1)
    assert len(sample(iter(pairs))) < 3


def test_a_large_corpus_is_sampled_from_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"{number:04}", f"{number:04}") for number in range(5_000)]
    monkeypatch.setattr(tokenizer_sample, "_SAMPLE_BYTES", 500 * (2 * 4 + 2 * 16))
    drawn = sample(iter(pairs))
    assert 440 < len(drawn) <= 500
    assert drawn == sorted(set(drawn))
    for start in range(0, 5_000, 1_000):  # each part of the corpus has about 95
        assert 60 < sum(start <= int(source) < start + 1_000 for source, _ in drawn) < 135
    assert drawn == sample(iter(pairs))


def test_a_line_larger_than_the_limit_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_sample, "_SAMPLE_BYTES", 100)
    assert sample([("x" * 1_000, "y")]) == [("x" * 1_000, "y")]
    assert len(sample([("x" * 1_000, "y")] * 20)) == 1


def test_consumed_lines_are_freed_one_by_one() -> None:
    lines = ["a", "b", "c"]
    stream = consume(lines)
    assert next(stream) == "a"
    assert sorted(lines) == ["b", "c"]
    assert list(stream) == ["b", "c"]
    assert not lines


def test_rare_characters_become_spaces() -> None:
    lines = ["abca", "abd"]
    assert list(replace_rare_characters(lines, 300)) == ["ab a", "ab "]  # c and d come once
    assert not lines
    # A space does not count: it comes in almost every text, however small.
    assert list(replace_rare_characters(["1 2 3", "4 5 6"], 300)) == ["1 2 3", "4 5 6"]
    # Half of 266 - 260: three characters have room, the most frequent first.
    assert list(replace_rare_characters(["ddccbbaaa"], 266)) == ["  ccbbaaa"]
