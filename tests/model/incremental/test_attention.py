"""Attention from one position, compared with the layer whose weights it uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.incremental import attention
from keras_transformer.model.incremental.attention import StepContext
from keras_transformer.model.incremental.caches import KeysValues, additive_mask
from keras_transformer.model.variants.rotary import RotaryAttention

# B = 2, W = 3, H = 2, D = 6, K = 4, K' = 5, S = 3.
BATCH, BEAM, HEADS = 2, 3, 2


def _normal(*shape: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def _layer(kind: Any = MultiHeadAttention) -> Any:
    layer = kind(6, HEADS, 4, 5)
    layer.build()
    return layer


def _context(slots: int, rows: tf.Tensor, **fields: Any) -> StepContext:
    biases = {
        "self_bias": tf.zeros([BATCH, HEADS, BEAM, slots]),
        "source_bias": tf.zeros([BATCH, HEADS, BEAM, 3]),
    }
    return StepContext(0, BEAM, tf.constant(slots), rows, **(biases | fields))


def test_the_joint_projection_scales_queries_only() -> None:
    layer = _layer()
    joint = attention.joint_projection(layer)
    assert joint.bias is None
    queries, keys, values = tf.split(joint.kernel, [8, 8, 10], axis=1)
    np.testing.assert_allclose(queries, layer.query_kernel.value / 2.0)
    np.testing.assert_array_equal(keys, layer.key_kernel.value)
    np.testing.assert_array_equal(values, layer.value_kernel.value)


def test_the_joint_projection_scales_the_bias_of_queries_too() -> None:
    layer = MultiHeadAttention(6, HEADS, 4, 5, use_bias=True)
    layer.build()
    for number, bias in enumerate((layer.query_bias, layer.key_bias, layer.value_bias), 1):
        bias.assign(tf.fill(bias.shape, 2.0 * number))
    joint = attention.joint_projection(layer)
    np.testing.assert_allclose(joint.bias, [1.0] * 8 + [4.0] * 8 + [6.0] * 10)


def test_cross_attention_equals_the_layer() -> None:
    layer = _layer()
    memory, x = _normal(BATCH, 3, 6), _normal(BATCH * BEAM, 6, seed=1)
    mask = tf.constant([[True, True, True], [True, False, False]])[:, None, None, :]
    cache = attention.cross_attention_cache(layer, memory, mask)
    bias = tf.tile(additive_mask(mask), [1, HEADS, BEAM, 1])
    context = _context(3, tf.zeros([0], tf.int32), source_bias=bias)
    # The W rows of a sentence correspond to W query positions.
    expected = layer(tf.reshape(x, [BATCH, BEAM, 6]), memory, mask)
    found = attention.cross_attention_step(layer, x, cache, context)
    np.testing.assert_allclose(found, tf.reshape(expected, [-1, 6]), atol=1e-6)


def test_a_source_of_padding_contributes_nothing() -> None:
    layer = _layer()
    mask = tf.constant([[True] * 3, [False] * 3])[:, None, None, :]
    _, values = attention.cross_attention_cache(layer, _normal(BATCH, 3, 6), mask)
    assert values[0].numpy().all()
    assert not values[1].numpy().any()


@pytest.mark.parametrize("kind", [MultiHeadAttention, RotaryAttention])
def test_self_attention_equals_the_layer_and_writes_its_slot(kind: Any) -> None:
    layer = _layer(kind)
    rows = [tf.raw_ops.Empty(shape=[BATCH * HEADS, BEAM * w], dtype="float32", init=True)
            for w in (4, 5)]  # fmt: skip
    x = _normal(BATCH * BEAM, 6)
    # Each row attends to its own slot alone.
    bias = additive_mask(tf.eye(BEAM) > 0.0)
    bias = tf.tile(bias[None, None], [BATCH, HEADS, 1, 1])
    context = _context(BEAM, tf.range(BATCH * HEADS), self_bias=bias)
    found, cache = attention.self_attention_step(
        layer, x, attention.joint_projection(layer), KeysValues(*rows), context
    )
    expected = layer(x[:, None], x[:, None])[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    keys = tf.reshape(cache.keys, [BATCH, HEADS, BEAM, 4])
    by_head = tf.reshape(x @ layer.key_kernel.value, [BATCH, BEAM, HEADS, 4])
    np.testing.assert_allclose(keys, tf.transpose(by_head, [0, 2, 1, 3]), atol=1e-6)
