"""Tokens that correspond, and the difference of their maps."""

from __future__ import annotations

import numpy as np
import pytest

from keras_transformer.visualize.comparison import compare, matched
from tests.visualize.fake_views import view, words


def test_equal_and_replaced_tokens_correspond_others_are_left_out() -> None:
    first, second = words("the", "cat", "sat", "down"), words("so", "the", "dog", "sat", "down")

    assert matched(first, second) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert matched(words("a", "b"), words("a", "c", "d", "b")) == [(0, 0), (1, 3)]
    assert matched(words("a"), words("b", "c")) == []


def test_difference_is_second_minus_first() -> None:
    first, second = view(), view(source=("a", "cat", "runs"))
    second.cross[0] = second.cross[0] * 0.5

    found = compare(first, second).difference("cross", 0, 0)

    np.testing.assert_allclose(found.weights, -0.5 * first.cross[0][0], rtol=1e-6)
    assert found.columns == ("\u02cda", "\u02cddog → \u02cdcat", "\u02cdruns", "[end]")


def test_runs_are_compared_by_the_mean_of_the_heads() -> None:
    comparison = compare(view(), view(), ("one", "two"), of_runs=True)

    assert "The heads of two runs do not correspond" in comparison.caption
    assert comparison.kinds == ["cross", "encoder", "decoder"]
    assert np.abs(comparison.difference("encoder").weights).max() == pytest.approx(0)
