"""Batch normalization over real tokens, and what it leaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.variants.ablations.batch_normalization import (
    BatchNormalization,
    BatchNormalizationConnection,
)

MASK = tf.constant([[True, True, True], [True, False, False]])[:, None, None, :]


def test_statistics_of_real_tokens_by_hand() -> None:
    """Real tokens of one feature: 1, 3, 5 and 7, of mean 4 and variance 5; padding is 100."""
    x = tf.constant([[1.0, 3.0, 5.0], [7.0, 100.0, 100.0]])[..., None]
    layer = BatchNormalization()
    layer.build(x.shape)
    output = layer(x, MASK, training=True).numpy()[..., 0]
    np.testing.assert_allclose(output[0], np.array([-3, -1, 1]) / 5**0.5, atol=1e-5)
    np.testing.assert_allclose(output[1, 0], 3 / 5**0.5, atol=1e-5)
    # A tenth of the way from mean 0 and variance 1.
    np.testing.assert_allclose(layer.moving_mean, [0.4], atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, [1.4], atol=1e-6)
    # Inference: (x - 0.4) / sqrt(1.4), in any shape.
    np.testing.assert_allclose(layer(x[:, 0]), (x[:, 0] - 0.4) / 1.4**0.5, atol=1e-5)


def test_a_batch_without_real_tokens_changes_no_statistics() -> None:
    layer = BatchNormalization()
    layer.build((2, 3, 4))
    output = layer(tf.ones([2, 3, 4]), tf.zeros([2, 1, 1, 3], tf.bool), training=True)
    assert np.isfinite(output).all()
    np.testing.assert_array_equal(layer.moving_mean, np.zeros(4))
    np.testing.assert_array_equal(layer.moving_variance, np.ones(4))


def _changes(model: keras.Model, training: bool) -> np.ndarray:
    """Return by how much each position's logits (1, T, V) change with the last target token."""
    source = tf.constant([[5, 6, 7, 3]])
    logits = [
        model({"source": source, "target": tf.constant([[2, 7, 5, last]])}, training=training)
        for last in (9, 10)
    ]
    return np.abs(logits[0] - logits[1]).max(axis=-1)[0]


@pytest.mark.parametrize(
    ("ablation", "training", "leaks"),
    [
        ("batch_normalization", True, True),
        ("batch_normalization", False, False),
        ("none", True, False),
    ],
)
def test_statistics_of_the_batch_leak_the_future_in_training(
    ablation: str, training: bool, leaks: bool, tiny_config: Any
) -> None:
    config = tiny_config(
        ablation=ablation, dropout=0.0, attention_dropout=0.0, feed_forward_dropout=0.0
    )
    keras.utils.set_random_seed(1)
    changes = _changes(transformer.build(config), training)
    assert changes[3] > 1e-3  # the changed token itself
    if leaks:
        assert (changes[:3] > 1e-4).all()
    else:
        np.testing.assert_array_equal(changes[:3], np.zeros(3))


@pytest.mark.slow
def test_harness(check_layer: Callable[..., None]) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(BatchNormalization, x, MASK)

    def call(layer: Any, x: Any, **options: Any) -> Any:
        if not layer.built:
            layer.build(x.shape)
        return layer(x, sublayer=lambda y: 2.0 * y, **options)

    check_layer(lambda **options: BatchNormalizationConnection(0.1, **options), x, call=call)
