"""Embeddings without sqrt(d_model)."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from keras_transformer.model.embedding import TokenEmbedding
from keras_transformer.model.variants.ablations.unscaled_embeddings import UnscaledEmbedding


def test_rows_and_logits_by_hand() -> None:
    matrix = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, -1.0]], "float32")
    plain, unscaled = TokenEmbedding(2, 4), UnscaledEmbedding(2, 4)
    for layer in (plain, unscaled):
        layer.build()
        layer.set_weights([matrix])
    np.testing.assert_array_equal(unscaled(tf.constant([[1, 0]])), matrix[None, [1, 0]])
    np.testing.assert_array_equal(plain(tf.constant([[1, 0]])), 2 * matrix[None, [1, 0]])
    # The output projection never had the factor.
    np.testing.assert_array_equal(unscaled(matrix[:1], reverse=True), [[30.0, -2.0]])
