from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.hypotheses import (
    NEVER,
    invariants,
    length_penalty,
    next_tokens,
    top_k,
)


# Narrow; divided by 64; divided by 67 but not 64; a prime, which needs padding.
@pytest.mark.parametrize("width", [5, 700, 6_400, 6_700, 6_701])
@pytest.mark.parametrize("count", [1, 4, 11])
def test_top_k_equals_a_full_sort(width, count):
    values = np.random.default_rng(width).normal(size=(7, width)).astype(np.float32)
    values[1, -1] = values[2, 0] = 9.0  # at both edges
    values[3, 5:] = -np.inf
    best, columns = top_k(tf.constant(values), count)
    expected = -np.sort(-values, axis=1)[:, :count]
    np.testing.assert_array_equal(best, expected)
    np.testing.assert_array_equal(np.take_along_axis(values, columns.numpy(), 1), expected)
    assert columns.numpy().max() < width
    finite = np.isfinite(expected)
    for row, real in zip(columns.numpy(), finite, strict=True):
        assert len(set(row[real])) == real.sum()


def test_next_tokens_by_hand():
    logits = tf.math.log([[0.4, 0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4]])
    found = next_tokens(logits, 2, forbidden=[0])
    assert found.tokens.numpy().tolist() == [[0, 3, 2], [3, 2, 1]]
    np.testing.assert_allclose(
        found.log_probabilities,
        [[NEVER, np.log(0.3), np.log(0.2)], np.log([0.4, 0.3, 0.2])],
        rtol=1e-5,
    )


def test_length_penalty_by_hand():
    # ((5 + 1) / 6)^a = 1; ((5 + 7) / 6)^1 = 2; ((5 + 19) / 6)^0.5 = 2.
    assert length_penalty(tf.constant([1, 7]), 1.0).numpy().tolist() == [1.0, 2.0]
    assert float(length_penalty(tf.constant(19), 0.5)) == pytest.approx(2.0)
    assert length_penalty(tf.constant([1, 7]), 0.0).numpy().tolist() == [1.0, 1.0]


def test_invariants_open_rows_and_what_is_empty():
    shapes = invariants({"cache": tf.zeros([6, 2, 0, 8]), "key": tf.zeros([6])})
    assert shapes["cache"].as_list() == [None, 2, None, 8]
    assert shapes["key"].as_list() == [None]
