"""Attention with linear biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.variants.alibi import AlibiAttention, alibi_bias, alibi_slopes


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


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
    x = _normal(1, 4, 6)
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
    layer = AlibiAttention(8, 2, 4, 4)
    x = _normal(1, 3, 8)
    forwards = layer(x, x).numpy()
    backwards = layer(x[:, ::-1], x[:, ::-1]).numpy()[:, ::-1]
    np.testing.assert_allclose(forwards, backwards, atol=1e-5)
    swapped = x[:, [1, 0, 2]]
    assert np.abs(layer(swapped, swapped).numpy()[:, [1, 0, 2]] - forwards).max() > 1e-3
    # Two paddings before the sentence, masked, move every position and change nothing.
    moved = np.concatenate([_normal(1, 2, 8, seed=1), x], axis=1)
    mask = tf.constant([[[[False, False, True, True, True]]]])
    np.testing.assert_allclose(layer(moved, moved, mask)[:, 2:], forwards, atol=1e-5)


def test_harness(check_layer: Callable[..., None]) -> None:
    def call(layer: Any, x: Any, mask: Any, **options: Any) -> Any:
        return layer(x, x, mask, **options)

    mask = tf.constant([[True, True, False], [True, True, True]])[:, None, None, :]
    check_layer(
        lambda **options: AlibiAttention(6, 2, 4, 5, 0.1, **options),
        _normal(2, 3, 6),
        mask,
        call=call,
    )
