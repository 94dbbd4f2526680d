"""Layer normalization, compared with Keras': results and gradients."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.kernels.normalization import EPSILON, LayerNormalization


def test_normalized_features_by_hand() -> None:
    # [3, 9]: mean 6, deviation 3; times [2, 1], plus [0, 5].
    layer = LayerNormalization()
    layer.build((None, None, 2))
    layer.set_weights([np.array([2.0, 1.0]), np.array([0.0, 5.0])])
    x = tf.constant([[[3.0, 9.0]]])
    for training in (False, True):
        np.testing.assert_allclose(layer(x, training=training), [[[-2.0, 6.0]]], atol=1e-5)


def test_equal_to_the_layer_of_keras_with_another_epsilon() -> None:
    x = np.random.default_rng(0).normal(2.0, 3.0, size=(2, 3, 6)).astype("float32")
    theirs = keras.layers.LayerNormalization(epsilon=EPSILON)
    np.testing.assert_array_equal(LayerNormalization()(x), theirs(x))


def test_features_with_a_large_mean_are_normalized_exactly() -> None:
    # The variance as a difference of squares would be lost here.
    x = 1000.0 + np.array([[[-1.0, 0.0, 0.0, 1.0]]], "float32")
    expected = np.array([[[-1.0, 0.0, 0.0, 1.0]]]) / np.sqrt(0.5)
    np.testing.assert_allclose(LayerNormalization()(x), expected, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_training_has_the_same_output_and_gradients(dtype: str) -> None:
    # In inference it is Keras' layer, whose gradient TensorFlow derives.
    rng = np.random.default_rng(0)
    layer = LayerNormalization(dtype=dtype)
    layer.build((None, None, 6))
    gain, bias = rng.normal(size=(2, 6)).astype("float32")
    layer.set_weights([gain, bias])
    x = tf.cast(rng.normal(2.0, 3.0, size=(2, 3, 6)), layer.compute_dtype)
    towards = tf.cast(rng.normal(size=(2, 3, 6)), layer.compute_dtype)
    found = []
    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, training=training)
        weights = [weight.value for weight in layer.weights]
        found.append([output, *tape.gradient(output, [x, *weights], output_gradients=towards)])
    tolerance = 1e-5 if dtype == "float32" else 3e-2
    for derived, by_hand in zip(*found, strict=True):
        assert by_hand.dtype == derived.dtype
        np.testing.assert_allclose(
            tf.cast(by_hand, tf.float32),
            tf.cast(derived, tf.float32),
            rtol=tolerance,
            atol=tolerance,
        )


def test_harness(check_layer: Callable[..., None]) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(LayerNormalization, x)
