"""Residual connection and layer normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.sublayer import SublayerConnection, layer_normalization


def _twice(x: Any) -> Any:
    return 2.0 * x


def _normalized(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """LayerNorm by its definition, in float64."""
    x = x.astype("float64")
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation * gain + bias


def test_post_norm_by_hand() -> None:
    # [1, 3] + [2, 6] = [3, 9]: mean 6, deviation 3.
    output = SublayerConnection("post")(tf.constant([[[1.0, 3.0]]]), sublayer=_twice)
    np.testing.assert_allclose(output, [[[-1.0, 1.0]]], atol=1e-5)


def test_pre_norm_by_hand() -> None:
    # [1, 3] has mean 2, deviation 1: [1, 3] + 2 * [-1, 1].
    output = SublayerConnection("pre")(tf.constant([[[1.0, 3.0]]]), sublayer=_twice)
    np.testing.assert_allclose(output, [[[-1.0, 5.0]]], atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_definition_with_learned_gain_and_bias(norm: str, scatter: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=(2, 3, 6)).astype("float32")
    kernel = rng.normal(size=(6, 6)).astype("float32")
    layer = SublayerConnection(norm)
    layer.build(x.shape)
    gain = next(weight for weight in layer.weights if weight.numpy().all())  # begins at 1
    bias = next(weight for weight in layer.weights if not weight.numpy().any())  # begins at 0
    assert len(layer.weights) == 2
    scatter(layer.weights)
    output = layer(x, sublayer=lambda y: y @ kernel)
    gain, bias = gain.numpy(), bias.numpy()
    if norm == "post":
        expected = _normalized(x + x @ kernel, gain, bias)
    else:
        expected = x + _normalized(x, gain, bias) @ kernel
    np.testing.assert_allclose(output, expected, atol=2e-5)


def test_features_of_large_mean_are_normalised_exactly() -> None:
    # The variance as a difference of squares would be lost here.
    x = 1000.0 + np.array([[[-1.0, 0.0, 0.0, 1.0]]], "float32")
    expected = np.array([[[-1.0, 0.0, 0.0, 1.0]]]) / np.sqrt(0.5)
    np.testing.assert_allclose(layer_normalization("float32")(x), expected, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_training_computes_the_same_with_the_same_gradients(dtype: str) -> None:
    # Outside of training it is Keras' layer, whose gradient TensorFlow derives.
    rng = np.random.default_rng(0)
    layer = layer_normalization(dtype)
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


@pytest.mark.parametrize("training", [False, True])
def test_a_constant_row_has_finite_gradients(training: bool) -> None:
    layer = SublayerConnection("post")
    x = tf.ones([1, 2, 4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x, sublayer=_twice, training=training)
        loss = tf.reduce_sum(output * tf.constant([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(output, tf.zeros_like(output), atol=1e-5)
    assert np.isfinite(tape.gradient(loss, x)).all()


def test_dropout_spares_the_residual_and_acts_in_training_only() -> None:
    layer = SublayerConnection("pre", dropout=0.5)
    x = tf.random.stateless_normal([4, 50, 8], [1, 2])
    np.testing.assert_allclose(layer(x, sublayer=tf.ones_like), x + 1.0)
    added = (layer(x, sublayer=tf.ones_like, training=True) - x).numpy()
    np.testing.assert_allclose(added, np.round(added), atol=1e-5)
    assert set(np.round(added).ravel()) == {0.0, 2.0}  # dropped, or scaled by 1 / 0.5
    # 1,600 coins: the share is within 5 standard deviations, 5 * 0.5 / 40.
    assert abs(added.mean() - 1.0) < 2 * 5 * 0.5 / 40


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_harness(norm: str, check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> SublayerConnection:
        return SublayerConnection(norm, 0.1, **options)

    def call(layer: Any, x: Any, **options: Any) -> Any:
        return layer(x, sublayer=_twice, **options)

    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(make, x, call=call)
