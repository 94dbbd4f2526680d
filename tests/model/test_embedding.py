"""Token embeddings and the projection that shares their matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.model.embedding import TokenEmbedding

# V = 3, D = 4, so that sqrt(D) = 2.
MATRIX = [[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0], [0.5, 0.0, -1.0, 0.0]]


def _layer(**options: Any) -> TokenEmbedding:
    layer = TokenEmbedding(3, 4, **options)
    layer.build()
    layer.matrix.assign(MATRIX)
    return layer


def test_rows_are_scaled_by_the_root_of_the_width() -> None:
    np.testing.assert_allclose(
        _layer()(tf.constant([[2, 1]])), [[[1.0, 0.0, -2.0, 0.0], [2.0, 4.0, 6.0, 8.0]]]
    )


def test_rows_may_have_another_scale() -> None:
    layer = TokenEmbedding(3, 4, scale=1.0)
    layer.build()
    layer.matrix.assign(MATRIX)
    np.testing.assert_array_equal(layer(tf.constant([[2, 1]])), [MATRIX[:0:-1]])
    # The logits never have the factor.
    np.testing.assert_array_equal(layer(tf.ones([1, 4]), reverse=True), [[0.0, 10.0, -0.5]])


def test_logits_use_the_same_matrix_without_the_scale() -> None:
    # [1, 1, 1, 0] with each row: 0, 1 + 2 + 3, 0.5 - 1.
    features = tf.constant([[[1.0, 1.0, 1.0, 0.0]]])
    np.testing.assert_allclose(_layer()(features, reverse=True), [[[0.0, 6.0, -0.5]]])
    np.testing.assert_allclose(_layer()(features[:, 0], reverse=True), [[0.0, 6.0, -0.5]])


def test_the_shared_matrix_has_gradients_of_both_uses() -> None:
    layer = _layer()
    assert layer.count_params() == 3 * 4
    with tf.GradientTape() as tape:
        embedded = layer(tf.constant([[1]]))
        logits = layer(tf.ones([1, 1, 4]), reverse=True)
        loss = tf.reduce_sum(embedded) + tf.reduce_sum(logits)
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.matrix.value))
    # Every row has a gradient from the logits; row 1 also from the embedding, 2 per feature.
    np.testing.assert_allclose(gradient, [[1.0] * 4, [3.0] * 4, [1.0] * 4])


def test_initial_embeddings_are_as_large_as_positional_encodings() -> None:
    embedded = TokenEmbedding(500, 64)(tf.range(500)[None, :])
    # Each feature has deviation 1 (500 * 64 draws); sinusoids have 0.7.
    assert abs(float(tf.math.reduce_std(embedded)) - 1.0) < 0.05


def test_logits_are_float32_in_any_precision() -> None:
    layer = _layer(dtype="mixed_bfloat16")
    assert layer(tf.constant([[1]])).dtype == tf.bfloat16
    assert layer(tf.ones([1, 1, 4], tf.bfloat16), reverse=True).dtype == tf.float32


def test_harness(check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> TokenEmbedding:
        return TokenEmbedding(5, 4, **options)

    def embed(layer: Any, ids: Any, **_: Any) -> Any:
        return layer(ids)

    def project(layer: Any, features: Any, **_: Any) -> Any:
        return layer(features, reverse=True)

    check_layer(make, tf.constant([[1, 2, 0], [4, 3, 3]]), call=embed)
    features = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(make, features, call=project)
