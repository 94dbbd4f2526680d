"""The drawing of sentences and their division into splits."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from keras_transformer.data.phrasebook import SPLITS, pairs
from tools.phrasebook import forms, sentences


def _bare(text: str) -> str:
    return text.rstrip(".?!。？！").casefold()


def test_one_sentence_has_one_translation() -> None:
    everything = [pair for split in SPLITS for pair in pairs(split)]
    translations = defaultdict(set)
    for english, chinese in everything:
        # Short forms are the same sentence: "I don't know." and "I do not know."
        translations[_bare(forms.contract(english))].add(_bare(chinese))
    assert not {key: found for key, found in translations.items() if len(found) > 1}
    assert len(everything) == len({english for english, _ in everything})


@pytest.mark.slow
def test_combinations_are_held_out_whole() -> None:
    combination = {_bare(item.english): item.combination for item in sentences.all_sentences()}
    used = [{combination[_bare(english)] for english, _ in pairs(split)} for split in SPLITS]
    assert not used[0] & (used[1] | used[2])
    assert not used[1] & used[2]


@pytest.mark.slow
def test_held_out_sentences_come_from_nearly_all_patterns() -> None:
    pattern = {_bare(item.english): item.pattern for item in sentences.all_sentences()}
    shares = Counter(pattern[_bare(english)] for english, _ in pairs("test"))
    assert len(shares) > 0.9 * len({*pattern.values()})
    assert max(shares.values()) < 40  # none dominates


@pytest.mark.slow
def test_statements_without_stop_come_from_many_patterns() -> None:
    pattern = {_bare(item.english): item.pattern for item in sentences.all_sentences()}
    train = dict(pairs("train"))
    unstopped = [english for english in train if english[-1].isalpha() and english + "." in train]
    assert len({pattern[_bare(english)] for english in unstopped}) > 100
