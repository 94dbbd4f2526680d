"""Pre-LN: x + Sublayer(LayerNorm(x))."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.model.variants.pre_norm import PreNormConnection


def _twice(x: Any) -> Any:
    return 2.0 * x


def test_pre_norm_by_hand() -> None:
    # [1, 3] has mean 2, deviation 1: [1, 3] + 2 * [-1, 1].
    output = PreNormConnection()(tf.constant([[[1.0, 3.0]]]), sublayer=_twice)
    np.testing.assert_allclose(output, [[[-1.0, 5.0]]], atol=1e-5)


def test_pre_norm_by_its_definition_with_learned_gain_and_bias(scatter: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=(2, 3, 6)).astype("float32")
    kernel = rng.normal(size=(6, 6)).astype("float32")
    layer = PreNormConnection()
    layer.build(x.shape)
    scatter(layer.weights)
    gain, bias = (weight.numpy() for weight in layer.weights)
    unit = (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)
    output = layer(x, sublayer=lambda y: y @ kernel)
    np.testing.assert_allclose(output, x + (unit * gain + bias) @ kernel, atol=2e-5)


def test_dropout_of_the_sublayer_output_in_training_only() -> None:
    layer = PreNormConnection(dropout=0.5)
    x = tf.random.stateless_normal([4, 50, 8], [1, 2])
    np.testing.assert_allclose(layer(x, sublayer=tf.ones_like), x + 1.0)
    added = (layer(x, sublayer=tf.ones_like, training=True) - x).numpy()
    np.testing.assert_allclose(added, np.round(added), atol=1e-5)
    assert set(np.round(added).ravel()) == {0.0, 2.0}  # dropped, or scaled by 1 / 0.5
    # 1,600 coins: the share is within 5 standard deviations, 5 * 0.5 / 40.
    assert abs(added.mean() - 1.0) < 2 * 5 * 0.5 / 40


def test_harness(check_layer: Callable[..., None]) -> None:
    def call(layer: Any, x: Any, **options: Any) -> Any:
        return layer(x, sublayer=_twice, **options)

    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(lambda **options: PreNormConnection(0.1, **options), x, call=call)
