"""Weights without start and end tokens."""

from __future__ import annotations

import numpy as np

from keras_transformer.visualize.renormalization import without_special_keys
from tests.visualize.fake_views import END, START, words


def test_the_end_token_is_left_out_and_rows_sum_to_1() -> None:
    columns = (*words("a", "b"), END)
    weights = np.array([[0.2, 0.2, 0.6], [0.1, 0.3, 0.6]], np.float32)

    found, kept = without_special_keys(weights, columns)

    np.testing.assert_allclose(found, [[0.5, 0.5], [0.25, 0.75]], rtol=1e-6)
    assert kept == columns[:2]


def test_a_row_with_nothing_else_is_0() -> None:
    weights = np.array([[[1, 0], [0.75, 0.25]]], np.float32)

    found, kept = without_special_keys(weights, (START, *words("a")))

    np.testing.assert_array_equal(found, [[[0], [1]]])
    assert len(kept) == 1
