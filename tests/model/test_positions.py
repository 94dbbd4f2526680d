"""The five ways to know the order of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.positions import (
    PositionalEncoding,
    alibi_bias,
    alibi_slopes,
    rotate,
    sinusoidal_encoding,
)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_sinusoids_by_hand() -> None:
    # D = 4: the first pair turns by 1 a position, the second by 10000^(-2/4) = 0.01.
    np.testing.assert_allclose(
        sinusoidal_encoding(3, 4),
        [
            [0.0, 1.0, 0.0, 1.0],
            [0.841471, 0.540302, 0.0099998, 0.999950],
            [0.909297, -0.416147, 0.0199987, 0.999800],
        ],
        atol=1e-6,
    )


def test_sinusoids_of_an_odd_width_end_with_a_sine() -> None:
    encoding = sinusoidal_encoding(2, 3)
    np.testing.assert_allclose(
        encoding[1], [math.sin(1), math.cos(1), math.sin(10000 ** (-2 / 3))], atol=1e-6
    )


@pytest.mark.parametrize("shift", [1, 7])
def test_shifted_sinusoids_are_a_linear_map(shift: int) -> None:
    encoding = sinusoidal_encoding(3000, 8).numpy().astype("float64")
    # One matrix, found on 20 positions wide apart, holds for the others.
    before, after = encoding[: 3000 - shift], encoding[shift:]
    matrix = np.linalg.lstsq(before[::150], after[::150], rcond=None)[0]
    np.testing.assert_allclose(before @ matrix, after, atol=2e-3)


def test_sinusoids_may_start_anywhere_and_have_no_end() -> None:
    whole = sinusoidal_encoding(5000, 16)
    np.testing.assert_array_equal(sinusoidal_encoding(3, 16, first=4321), whole[4321:4324])
    exact = np.sin(4999 / 10000 ** (np.arange(0, 16, 2) / 16))
    np.testing.assert_allclose(whole[4999, ::2], exact, atol=1e-3)


def test_rotation_by_hand() -> None:
    # One pair, turned by its position.
    x = tf.reshape(tf.constant([1.0, 0.0] * 3), [1, 1, 3, 2])
    expected = [[math.cos(p), math.sin(p)] for p in range(3)]
    np.testing.assert_allclose(rotate(x)[0, 0], expected, atol=1e-6)


def test_rotation_keeps_norms_and_knows_distances_only() -> None:
    x = _normal(2, 3, 5, 8)
    np.testing.assert_allclose(
        np.linalg.norm(rotate(x, 11), axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5
    )

    def products(first: int) -> tf.Tensor:
        return tf.matmul(rotate(x, first), rotate(x[::-1], first), transpose_b=True)

    np.testing.assert_allclose(products(0), products(40), atol=1e-4)
    unmoved = tf.matmul(x, x[::-1], transpose_b=True)
    assert np.abs(products(0) - unmoved).max() > 0.1


def test_rotation_starts_at_the_given_position() -> None:
    x = _normal(1, 2, 6, 4)
    np.testing.assert_allclose(rotate(x[:, :, 4:], 4), rotate(x)[:, :, 4:], atol=1e-6)


def test_alibi_slopes_of_a_power_of_two() -> None:
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(1) == [2.0**-8]
    np.testing.assert_allclose(alibi_slopes(16), [2.0 ** (-i / 2) for i in range(1, 17)])


def test_alibi_slopes_of_other_numbers() -> None:
    # 6 heads: the four of 4 heads, then the first and third of 8 heads.
    assert alibi_slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    # 3 heads: the two of 2 heads, then the first of 4.
    assert alibi_slopes(3) == [2.0**-4, 2.0**-8, 2.0**-2]


def test_alibi_bias_by_hand() -> None:
    # Queries at 1 and 2, keys at 0, 1 and 2; 2 heads with slopes 1/16 and 1/256.
    bias = alibi_bias(2, 2, 3, first=1)
    assert bias.shape == (1, 2, 2, 3)
    np.testing.assert_array_equal(bias[0, 0] * 16, [[-1.0, 0.0, -1.0], [-2.0, -1.0, 0.0]])
    np.testing.assert_array_equal(bias[0, 1] * 256, [[-1.0, 0.0, -1.0], [-2.0, -1.0, 0.0]])


def test_layer_adds_sinusoids() -> None:
    x = _normal(2, 3, 4)
    layer = PositionalEncoding("sinusoidal")
    np.testing.assert_allclose(layer(x), x + sinusoidal_encoding(3, 4)[None], atol=1e-6)
    np.testing.assert_allclose(layer(x, first=5), x + sinusoidal_encoding(3, 4, 5)[None], atol=1e-6)
    assert layer.count_params() == 0


def test_learned_positions_share_the_last_one_beyond_the_end() -> None:
    layer = PositionalEncoding("learned", max_positions=3)
    layer.build((None, None, 2))
    layer.table.assign([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    added = layer(tf.zeros([2, 5, 2]))
    table = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [3.0, 30.0], [3.0, 30.0]]
    np.testing.assert_array_equal(added, [table, table])
    np.testing.assert_array_equal(layer(tf.zeros([1, 1, 2]), first=1), [[[2.0, 20.0]]])
    np.testing.assert_array_equal(layer(tf.zeros([1, 1, 2]), first=9), [[[3.0, 30.0]]])


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_nothing_is_added_where_attention_sees_to_positions(positions: str) -> None:
    x = _normal(2, 3, 4)
    np.testing.assert_array_equal(PositionalEncoding(positions)(x), x)


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_dropout_acts_on_the_sum_in_training_only(positions: str) -> None:
    layer = PositionalEncoding(positions, dropout=0.25)
    x = tf.ones([4, 10, 8])
    plain, dropped = layer(x).numpy(), layer(x, training=True).numpy()
    kept = dropped != 0.0
    np.testing.assert_allclose(dropped[kept], plain[kept] / 0.75, rtol=1e-5)
    # 320 coins of 3/4: within 5 standard deviations.
    assert abs(kept.mean() - 0.75) < 5 * math.sqrt(0.25 * 0.75 / kept.size)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_harness(positions: str, check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> PositionalEncoding:
        return PositionalEncoding(positions, 3, 0.1, **options)

    check_layer(make, _normal(2, 4, 6))
