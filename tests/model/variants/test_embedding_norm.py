"""Layer normalization of embeddings with positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.positions import LearnedPositionalEncoding
from keras_transformer.model.variants.embedding_norm import NormalizedPositionalEncoding
from keras_transformer.model.variants.no_positions import NoPositionalEncoding


def test_the_sum_is_normalized_by_hand() -> None:
    layer = NormalizedPositionalEncoding(LearnedPositionalEncoding(3), epsilon=2.0)
    layer.build((None, None, 2))
    layer.table.assign([[0.0, 0.0], [1.0, 0.0], [4.0, 0.0]])
    layer.normalization.beta.assign([0.0, 10.0])
    # Sums (3, 2), (4, 2), (7, 2): means 2.5, 3, 4.5, variances 0.25, 1, 6.25.
    found = layer(tf.constant([[[3.0, 2.0]] * 3]))
    halves = np.array([0.5, 1.0, 2.5]) / np.sqrt([2.25, 3.0, 8.25])
    np.testing.assert_allclose(found[0], np.stack([halves, 10 - halves], axis=1), atol=1e-6)


def test_dropout_comes_after_the_normalization() -> None:
    layer = NormalizedPositionalEncoding(NoPositionalEncoding(), dropout=0.5)
    x = tf.random.stateless_normal([2, 30, 4], [1, 2])
    plain, dropped = layer(x).numpy(), layer(x, training=True).numpy()
    assert (dropped == 0.0).any()
    kept = dropped != 0.0
    np.testing.assert_allclose(dropped[kept], 2.0 * plain[kept], rtol=1e-5)


@pytest.mark.slow
def test_harness(check_layer: Callable[..., None]) -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    check_layer(
        lambda **options: NormalizedPositionalEncoding(
            LearnedPositionalEncoding(3, dtype=options.get("dtype")), 0.1, 1e-3, **options
        ),
        x,
    )
