"""Additive attention."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from keras_transformer.model.variants.additive_attention import AdditiveAttention
from tests.model.variants.helpers import normal


def test_attention_by_hand() -> None:
    layer = AdditiveAttention(1, 1)
    layer.build()
    # W = 1, U = 2, v = 3: e_j = 3 tanh(s + 2 h_j).
    layer.set_weights([np.array([[1.0]]), np.array([[2.0]]), np.array([[3.0]])])
    memory = tf.constant([[[0.5], [0.0], [-0.5], [9.0]]])
    mask = tf.constant([[[[True, True, True, False]]]])
    # Two queries: s = 0 and s = 1.
    context, weights = layer(tf.constant([[[0.0], [1.0]]]), layer.source(memory, mask))
    # tanh(1) = 0.761594, so e = 2.284782, 0, -2.284782; their exponentials are 9.8235, 1, 0.1018.
    expected = np.array([9.8235, 1.0, 0.1018, 0.0]) / 10.9253
    np.testing.assert_allclose(weights[0, 0], expected, atol=1e-5)
    np.testing.assert_allclose(context[0, 0], [0.5 * (9.8235 - 0.1018) / 10.9253], atol=1e-5)
    # tanh(2) = 0.964028, tanh(1), tanh(0): e = 2.892083, 2.284782, 0.
    expected = np.array([18.0309, 9.8235, 1.0, 0.0]) / 28.8544
    np.testing.assert_allclose(weights[0, 1], expected, atol=1e-5)


def test_a_source_of_padding_gives_no_context() -> None:
    layer = AdditiveAttention(4, 6)
    layer.build()
    mask = tf.constant([False, False, False])[None, None, None]
    context, weights = layer(normal(1, 2, 4), layer.source(tf.constant(normal(1, 3, 6)), mask))
    assert np.isfinite(weights).all()
    assert not context.numpy().any()
