"""Probabilities of the next tokens."""

from __future__ import annotations

from typing import cast

import numpy as np

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.special_tokens import END
from keras_transformer.visualize.next_tokens import read_next_tokens
from tests.visualize.test_tokens import Pieces


def test_probability_rank_and_candidates() -> None:
    side = cast(LanguageTokenizer, Pieces("▁a", "▁b"))
    with np.errstate(divide="ignore"):
        logits = np.log([[0, 0, 0, 0.2, 0.5, 0.3], [0, 0, 0, 0.9, 0.1, 0]]) + 7

    first, last = read_next_tokens(logits, [5, END], side, top_k=2)

    assert (first.chosen.token.spoken, first.rank) == ("b", 2)
    np.testing.assert_allclose(first.chosen.probability, 0.3)
    assert [each.token.spoken for each in first.candidates] == ["a", "b"]
    np.testing.assert_allclose([each.probability for each in first.candidates], [0.5, 0.3])
    assert (last.chosen.token.spoken, last.rank) == ("end", 1)
