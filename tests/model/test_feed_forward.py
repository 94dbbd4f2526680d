"""The position-wise feed-forward network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.model.feed_forward import FeedForward


def _layer(dropout: float = 0.0) -> FeedForward:
    """D = 2, d_ff = 3."""
    layer = FeedForward(2, 3, dropout)
    layer.build((None, None, 2))
    layer.inner_kernel.assign([[1.0, -1.0, 2.0], [0.0, 1.0, -1.0]])
    layer.inner_bias.assign([0.5, 0.0, -1.0])
    layer.outer_kernel.assign([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])
    layer.outer_bias.assign([0.0, -2.0])
    return layer


def test_equation_2_by_hand() -> None:
    # x W1 + b1 = [1 + 0.5, -1 + 3 + 0, 2 - 3 - 1] = [1.5, 2, -2]; ReLU: [1.5, 2, 0]
    # times W2, plus b2: [1.5 + 4, 2 - 2] = [5.5, 0]
    np.testing.assert_allclose(_layer()(tf.constant([[[1.0, 3.0]]])), [[[5.5, 0.0]]])


def test_positions_are_independent() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 2)).astype("float32")
    changed = x.copy()
    changed[1, 3] += 1.0
    before, after = _layer()(x).numpy(), _layer()(changed).numpy()
    assert (before[1, 3] != after[1, 3]).any()
    after[1, 3] = before[1, 3]
    np.testing.assert_array_equal(before, after)


def test_dropout_between_the_dense_layers_in_training_only() -> None:
    layer = _layer(dropout=0.5)
    x = tf.tile(tf.constant([[[1.0, 3.0]]]), [1, 200, 1])
    np.testing.assert_allclose(layer(x), [[[5.5, 0.0]] * 200])
    # Of [1.5, 2, 0] each is either dropped or doubled: [{0, 3} + {0, 8}, {0, 4} - 2].
    rows = {tuple(row) for row in layer(x, training=True)[0].numpy().tolist()}
    assert rows == {(0.0, -2.0), (3.0, -2.0), (8.0, 2.0), (11.0, 2.0)}


def test_parameters_are_two_matrices_and_two_biases() -> None:
    assert _layer().count_params() == 2 * 3 + 3 + 3 * 2 + 2


def test_harness(check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> FeedForward:
        return FeedForward(4, 16, 0.1, **options)

    check_layer(make, np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32"))
