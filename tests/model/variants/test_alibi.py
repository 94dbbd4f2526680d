"""Attention with linear biases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.variants.alibi import AlibiAttention, alibi_bias, alibi_slopes
from tests.model.variants.helpers import (
    check_positions_are_relative,
    check_self_attention,
    normal,
)


def test_slopes_of_a_power_of_two_heads() -> None:
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(1) == [2.0**-8]
    np.testing.assert_allclose(alibi_slopes(16), [2.0 ** (-i / 2) for i in range(1, 17)])


def test_slopes_of_other_numbers_of_heads() -> None:
    # 6 heads: the four of 4 heads, then the first and third of 8 heads.
    assert alibi_slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    # 3 heads: the two of 2 heads, then the first of 4.
    assert alibi_slopes(3) == [2.0**-4, 2.0**-8, 2.0**-2]


def test_bias_by_hand() -> None:
    # Queries at 1 and 2, keys at 0, 1 and 2; 2 heads with slopes 1/16 and 1/256.
    distance = tf.constant([[1, 0, -1], [2, 1, 0]])
    bias = alibi_bias(2, distance)
    assert bias.shape == (2, 2, 3)
    np.testing.assert_array_equal(bias[0] * 16, [[-1.0, 0.0, -1.0], [-2.0, -1.0, 0.0]])
    np.testing.assert_array_equal(bias[1] * 256, [[-1.0, 0.0, -1.0], [-2.0, -1.0, 0.0]])
    # Each sentence may have distances of its own.
    np.testing.assert_array_equal(alibi_bias(2, distance[:, None])[:, :, 0], tf.stack(bias, 1))


def test_weights_by_the_definition() -> None:
    x = normal(1, 4, 6)
    plain, alibi = MultiHeadAttention(6, 2, 4, 3), AlibiAttention(6, 2, 4, 3)
    weights = plain(x, x, return_weights=True)[1].numpy()
    alibi.build()
    alibi.set_weights(plain.get_weights())
    biased = alibi(x, x, return_weights=True)[1].numpy()
    positions = np.arange(4)
    distance = np.abs(positions[:, None] - positions[None, :])
    for head, slope in enumerate(alibi_slopes(2)):
        # softmax(s - b) is softmax(s) times e^-b, normalized again.
        expected = weights[0, head] * np.exp(-slope * distance)
        expected /= expected.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(biased[0, head], expected, atol=1e-6)


def test_attention_depends_on_distance_only() -> None:
    forwards, backwards = check_positions_are_relative(AlibiAttention(8, 2, 4, 4))
    np.testing.assert_allclose(forwards, backwards, atol=1e-5)


def test_harness(check_layer: Callable[..., None]) -> None:
    check_self_attention(check_layer, AlibiAttention)
