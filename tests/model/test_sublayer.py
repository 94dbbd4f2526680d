"""Residual connection and layer normalization: LayerNorm(x + Sublayer(x))."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.sublayer import SublayerConnection


def _twice(x: Any) -> Any:
    return 2.0 * x


def _normalized(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """LayerNorm by its definition, in float64."""
    x = x.astype("float64")
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation * gain + bias


def test_post_norm_by_hand() -> None:
    # [1, 3] + [2, 6] = [3, 9]: mean 6, deviation 3.
    output = SublayerConnection()(tf.constant([[[1.0, 3.0]]]), sublayer=_twice)
    np.testing.assert_allclose(output, [[[-1.0, 1.0]]], atol=1e-5)


def test_post_norm_by_its_definition_with_learned_gain_and_bias(scatter: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=(2, 3, 6)).astype("float32")
    kernel = rng.normal(size=(6, 6)).astype("float32")
    layer = SublayerConnection()
    layer.build(x.shape)
    gain = next(weight for weight in layer.weights if weight.numpy().all())  # begins at 1
    bias = next(weight for weight in layer.weights if not weight.numpy().any())  # begins at 0
    assert len(layer.weights) == 2
    scatter(layer.weights)
    output = layer(x, sublayer=lambda y: y @ kernel)
    expected = _normalized(x + x @ kernel, gain.numpy(), bias.numpy())
    np.testing.assert_allclose(output, expected, atol=2e-5)


@pytest.mark.parametrize("training", [False, True])
def test_a_constant_row_has_finite_gradients(training: bool) -> None:
    layer = SublayerConnection()
    x = tf.ones([1, 2, 4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x, sublayer=_twice, training=training)
        loss = tf.reduce_sum(output * tf.constant([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(output, tf.zeros_like(output), atol=1e-5)
    assert np.isfinite(tape.gradient(loss, x)).all()


def test_harness(check_layer: Callable[..., None]) -> None:
    def call(layer: Any, x: Any, **options: Any) -> Any:
        return layer(x, sublayer=_twice, **options)

    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(lambda **options: SublayerConnection(0.1, **options), x, call=call)
