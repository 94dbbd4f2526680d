"""Attention without 1 / sqrt(d_k)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.variants.ablations.unscaled_attention import UnscaledAttention
from tests.model.variants.helpers import check_self_attention, normal


def test_scores_by_hand() -> None:
    """One head of width 4, all kernels of identity: softmax(x xᵀ) instead of softmax(x xᵀ / 2)."""
    x = tf.constant([[[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]]])
    eye = np.eye(4, dtype="float32")
    for kind, scale in ((UnscaledAttention, 1.0), (MultiHeadAttention, 0.5)):
        layer = kind(4, 1, 4, 4)
        layer.build()
        layer.set_weights([eye] * 4)
        _, weights = layer(x, x, return_weights=True)
        # Scores (1, 0) and (0, 4), times the scale.
        first, second = np.exp(scale), np.exp(4 * scale)
        expected = [
            [first / (first + 1), 1 / (first + 1)],
            [1 / (second + 1), second / (second + 1)],
        ]
        np.testing.assert_allclose(weights[0, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_blockwise_attention_is_unscaled_too(causal: bool) -> None:
    x = normal(2, 5, 8)
    plain, blockwise = (
        UnscaledAttention(8, 2, 4, 4, attention=kind) for kind in ("plain", "blockwise")
    )
    expected = plain(x, x, causal=causal)
    blockwise.build()
    blockwise.set_weights(plain.get_weights())
    np.testing.assert_allclose(blockwise(x, x, causal=causal), expected, atol=1e-5)


def test_smaller_queries_give_the_scaled_weights() -> None:
    """The division is one way to initialise W^Q smaller, as T5 does."""
    x = normal(1, 5, 8)
    scaled, unscaled = MultiHeadAttention(8, 2, 4, 4), UnscaledAttention(8, 2, 4, 4)
    expected = scaled(x, x)
    query, *others = scaled.get_weights()
    unscaled.build()
    unscaled.set_weights([query / 2, *others])
    np.testing.assert_allclose(unscaled(x, x), expected, atol=1e-5)


@pytest.mark.slow
def test_harness(check_layer: Callable[..., None]) -> None:
    check_self_attention(check_layer, UnscaledAttention)
