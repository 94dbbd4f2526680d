"""Embeddings without positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_transformer.model.variants.no_positions import NoPositionalEncoding


def test_output_is_the_input_with_dropout_in_training() -> None:
    layer = NoPositionalEncoding(dropout=0.5)
    x = tf.random.stateless_normal([2, 30, 4], [1, 2])
    np.testing.assert_array_equal(layer(x, first=3), x)
    dropped = layer(x, training=True).numpy()
    assert (dropped == 0.0).any()
    np.testing.assert_allclose(dropped[dropped != 0.0], 2.0 * x.numpy()[dropped != 0.0])


def test_harness(check_layer: Callable[..., None]) -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    check_layer(lambda **options: NoPositionalEncoding(0.1, **options), x)
