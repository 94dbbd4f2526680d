"""Sinusoidal and learned positional encodings."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.positions import (
    LearnedPositionalEncoding,
    PositionalEncoding,
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
    # A matrix fitted on 20 positions far apart holds for the others too.
    before, after = encoding[: 3000 - shift], encoding[shift:]
    matrix = np.linalg.lstsq(before[::150], after[::150], rcond=None)[0]
    np.testing.assert_allclose(before @ matrix, after, atol=2e-3)


def test_sinusoids_start_at_any_position_and_have_no_limit() -> None:
    whole = sinusoidal_encoding(5000, 16)
    np.testing.assert_array_equal(sinusoidal_encoding(3, 16, first=4321), whole[4321:4324])
    exact = np.sin(4999 / 10000 ** (np.arange(0, 16, 2) / 16))
    np.testing.assert_allclose(whole[4999, ::2], exact, atol=1e-3)


def test_layer_adds_sinusoids() -> None:
    x = _normal(2, 3, 4)
    layer = PositionalEncoding()
    np.testing.assert_allclose(layer(x), x + sinusoidal_encoding(3, 4)[None], atol=1e-6)
    np.testing.assert_allclose(layer(x, first=5), x + sinusoidal_encoding(3, 4, 5)[None], atol=1e-6)
    assert layer.count_params() == 0


def test_positions_beyond_the_learned_ones_use_the_last() -> None:
    layer = LearnedPositionalEncoding(3)
    layer.build((None, None, 2))
    layer.table.assign([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    added = layer(tf.zeros([2, 5, 2]))
    table = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [3.0, 30.0], [3.0, 30.0]]
    np.testing.assert_array_equal(added, [table, table])
    np.testing.assert_array_equal(layer(tf.zeros([1, 1, 2]), first=1), [[[2.0, 20.0]]])
    np.testing.assert_array_equal(layer(tf.zeros([1, 1, 2]), first=9), [[[3.0, 30.0]]])


def test_dropout_of_the_sum_in_training_only() -> None:
    layer = PositionalEncoding(dropout=0.25)
    x = tf.ones([4, 10, 8])
    plain, dropped = layer(x).numpy(), layer(x, training=True).numpy()
    kept = dropped != 0.0
    np.testing.assert_allclose(dropped[kept], plain[kept] / 0.75, rtol=1e-5)
    # 320 coins of 3/4: within 5 standard deviations.
    assert abs(kept.mean() - 0.75) < 5 * math.sqrt(0.25 * 0.75 / kept.size)


def test_harness(check_layer: Callable[..., None]) -> None:
    check_layer(lambda **options: PositionalEncoding(0.1, **options), _normal(2, 4, 6))
    check_layer(lambda **options: LearnedPositionalEncoding(3, 0.1, **options), _normal(2, 4, 6))
