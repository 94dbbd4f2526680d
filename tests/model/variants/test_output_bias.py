"""Logits with a bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.variants.output_bias import BiasedTokenEmbedding

MATRIX = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, -1.0]], "float32")


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_rows_and_logits_by_hand(dtype: str) -> None:
    layer = BiasedTokenEmbedding(2, 4, dtype=dtype)
    layer.build()
    layer.set_weights([MATRIX, np.array([0.0, -30.125], "float32")])
    # Embeddings, times sqrt(4), have no bias.
    np.testing.assert_array_equal(layer(tf.constant([[1]])), 2 * MATRIX[None, [1]])
    logits = layer(tf.constant([[1.0, 1.0, 0.0, 0.0]]), reverse=True)
    assert logits.dtype == tf.float32
    np.testing.assert_array_equal(logits, [[3.0, 1.0 - 30.125]])  # not rounded to bfloat16


@pytest.mark.slow
def test_harness(check_layer: Callable[..., None]) -> None:
    def project(layer: Any, features: Any, **_: Any) -> Any:
        return layer(features, reverse=True)

    features = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(
        lambda **options: BiasedTokenEmbedding(5, 4, 1.0, **options), features, call=project
    )
