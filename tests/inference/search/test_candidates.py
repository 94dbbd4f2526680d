"""The next tokens and their log-probabilities, by hand and against full sorts."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.search.candidates import NO_TOKEN, next_tokens, top_k
from keras_transformer.inference.search.hypotheses import NEG_INF


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
    candidates = next_tokens(logits, 2, forbidden=[0])
    assert candidates.tokens.numpy().tolist() == [[0, 3, 2], [3, 2, 1]]
    np.testing.assert_allclose(
        candidates.log_probabilities,
        [[NEG_INF, np.log(0.3), np.log(0.2)], np.log([0.4, 0.3, 0.2])],
        rtol=1e-5,
    )


# A count that is a tensor is not known in advance: few, as many as there are blocks, all.
@pytest.mark.parametrize("count", [3, 128, 9_001, 20_000])
def test_top_k_of_a_count_known_only_in_the_loop(count):
    values = np.random.default_rng(count).normal(size=(2, 9_001)).astype(np.float32)
    best, columns = top_k(tf.constant(values), tf.constant(count))
    expected = -np.sort(-values, axis=1)[:, :count]
    np.testing.assert_array_equal(best, expected)
    np.testing.assert_array_equal(np.take_along_axis(values, columns.numpy(), 1), expected)


def test_banned_tokens_leave_as_many_allowed_ones_as_are_wanted():
    probabilities = [[0.4, 0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4]]
    banned = tf.constant([[3, 2], [NO_TOKEN, NO_TOKEN]], tf.int64)
    candidates = next_tokens(tf.math.log(probabilities), 1, forbidden=[0], banned=banned)
    assert candidates.tokens.numpy().tolist() == [[0, 3, 2, 1], [3, 2, 1, 0]]
    np.testing.assert_allclose(
        candidates.log_probabilities,
        [[NEG_INF, NEG_INF, NEG_INF, np.log(0.1)], [*np.log([0.4, 0.3, 0.2]), NEG_INF]],
        rtol=1e-5,
    )


def test_a_forced_token_is_the_only_one_possible():
    probabilities = [[0.4, 0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4], [0.1, 0.9, 0.0, 0.0]]
    forced = tf.constant([1, 0, 2], tf.int64)  # 0 is padding: the second row is free
    logits = tf.math.log(probabilities)
    banned = tf.constant([[1]] * 3, tf.int64)
    candidates = next_tokens(logits, 1, [0, 1], banned=banned, forced=forced)
    assert candidates.tokens[:, 0].numpy().tolist() == [1, 3, 2]
    np.testing.assert_allclose(
        candidates.log_probabilities[:, 0], [np.log(0.1), np.log(0.4), NEG_INF], rtol=1e-5
    )
    assert (candidates.log_probabilities[0, 1:].numpy() == NEG_INF).all()
    assert (candidates.log_probabilities[1, 1:3].numpy() > NEG_INF).any()


def test_selection_in_another_order():
    logits = tf.math.log([[0.4, 0.1, 0.2, 0.3]])
    candidates = next_tokens(logits, 2, [], order=tf.constant([[1.0, 4.0, 3.0, 2.0]]))
    assert candidates.tokens.numpy().tolist() == [[1, 2]]
    np.testing.assert_allclose(candidates.log_probabilities, [np.log([0.1, 0.2])], rtol=1e-5)
