"""Scaled dot-product attention and multi-head attention."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention
from keras_transformer.model.variants.rotary import RotaryAttention
from tests.model.variants.helpers import check_self_attention


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _layer(d_model: int = 6, heads: int = 2, key: int = 3, value: int = 3, **options: Any) -> Any:
    layer = MultiHeadAttention(d_model, heads, key, value, **options)
    layer.build()
    return layer


# The worked example: two queries, two keys of width 3, two values of width 2.
QUERIES = tf.constant([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
KEYS = tf.constant([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
VALUES = tf.constant([[1.0, 2.0], [3.0, 4.0]])


def test_worked_example() -> None:
    # Q Kᵀ = [[1, 1], [1, 2]], divided by sqrt(3) = [[0.577, 0.577], [0.577, 1.155]].
    # Second row: 1 / (1 + e^0.577) = 1 / 2.781 = 0.360 and 0.640; output 0.360 * [1, 2] +
    # 0.640 * [3, 4] = [2.281, 3.281]. Unscaled it would be 1 / (1 + e) = 0.269, not 0.36.
    output, weights = scaled_dot_product_attention(QUERIES, KEYS, VALUES)
    np.testing.assert_allclose(weights, [[0.5, 0.5], [0.3595, 0.6405]], atol=1e-4)
    np.testing.assert_allclose(output, [[2.0, 3.0], [2.2809, 3.2809]], atol=1e-4)


def test_worked_example_without_the_scale_is_another() -> None:
    # Queries times sqrt(3) cancel the scale: the second row is 1 / (1 + e) and e / (1 + e).
    _, weights = scaled_dot_product_attention(QUERIES * 3.0**0.5, KEYS, VALUES)
    np.testing.assert_allclose(weights, [[0.5, 0.5], [0.2689, 0.7311]], atol=1e-4)


def test_bias_is_added_to_scaled_scores() -> None:
    # The second query scores 0.577 and 1.155; a bias that makes them equal gives halves.
    bias = tf.constant([[0.0, 0.0], [3.0**-0.5, 0.0]])
    _, weights = scaled_dot_product_attention(QUERIES, KEYS, VALUES, bias=bias)
    np.testing.assert_allclose(weights, [[0.5, 0.5], [0.5, 0.5]], atol=1e-6)


def test_masked_keys_change_nothing() -> None:
    mask = tf.constant([[True, True], [True, False]])
    output, weights = scaled_dot_product_attention(QUERIES, KEYS, VALUES, mask)
    np.testing.assert_array_equal(weights, [[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(output, [[2.0, 3.0], [1.0, 2.0]])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_query_without_keys_gives_zero_and_changes_no_other(dtype: str) -> None:
    queries, keys, values = (tf.cast(_normal(3, 4, seed=i), dtype) for i in range(3))
    mask = tf.constant([[True, True, False], [False, False, False], [True, False, True]])
    with tf.GradientTape() as tape:
        tape.watch([queries, keys, values])
        output, weights = scaled_dot_product_attention(queries, keys, values, mask)
        loss = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
    gradients = tape.gradient(loss, [queries, keys, values])
    assert not weights[1].numpy().any()
    assert not tf.cast(output[1], tf.float32).numpy().any()
    for tensor in (output, weights, *gradients):
        assert np.isfinite(tf.cast(tensor, tf.float32)).all()
    assert not tf.cast(gradients[0][1], tf.float32).numpy().any()
    # The other rows are bit-identical to those of a batch whose second row has keys.
    full = tf.constant([[True, True, False], [True, True, True], [True, False, True]])
    other, other_weights = scaled_dot_product_attention(queries, keys, values, full)
    for row in (0, 2):
        np.testing.assert_array_equal(weights[row], other_weights[row])
        np.testing.assert_array_equal(
            tf.cast(output[row], tf.float32), tf.cast(other[row], tf.float32)
        )


def test_large_scores_do_not_overflow() -> None:
    output, weights = scaled_dot_product_attention(QUERIES * 1e18, KEYS * 1e18, VALUES)
    np.testing.assert_allclose(weights, [[0.5, 0.5], [0.0, 1.0]], atol=1e-6)
    assert np.isfinite(output).all()
    mask = tf.constant([[True, False]])
    _, weights = scaled_dot_product_attention(-QUERIES * 1e18, KEYS * 1e18, VALUES, mask)
    np.testing.assert_array_equal(weights, [[1.0, 0.0], [1.0, 0.0]])


def _by_definition(layer: Any, query: Any, memory: Any, mask: Any) -> np.ndarray:
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O, head by head, in float64."""
    heads = []
    for head in range(layer.heads):
        keys = slice(head * layer.key_width, (head + 1) * layer.key_width)
        values = slice(head * layer.value_width, (head + 1) * layer.value_width)
        q = query @ layer.query_kernel.numpy()[:, keys].astype("float64")
        k = memory @ layer.key_kernel.numpy()[:, keys].astype("float64")
        v = memory @ layer.value_kernel.numpy()[:, values].astype("float64")
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(layer.key_width)
        exponents = np.exp(scores) * mask
        heads.append(exponents / exponents.sum(axis=-1, keepdims=True) @ v)
    return np.concatenate(heads, axis=-1) @ layer.output_kernel.numpy()


@pytest.mark.parametrize(
    ("heads", "key", "value"),
    # The last two are small versions of rows (B) and (A) of Table 3: d_k alone, one full head.
    [(2, 3, 3), (3, 2, 2), (2, 1, 5), (1, 6, 6)],
)
def test_multi_head_attention_by_its_definition(heads: int, key: int, value: int) -> None:
    layer = _layer(6, heads, key, value)
    query, memory = _normal(2, 4, 6), _normal(2, 3, 6, seed=1)  # B, T and S all differ
    mask = np.array([[True, True, True], [True, False, True]])[:, None, :]
    output, weights = layer(query, memory, mask[:, None], return_weights=True)
    assert output.shape == (2, 4, 6)
    assert weights.shape == (2, heads, 4, 3)
    np.testing.assert_allclose(tf.reduce_sum(weights, axis=-1), np.ones((2, heads, 4)), rtol=1e-5)
    expected = _by_definition(layer, query, memory, mask)
    np.testing.assert_allclose(output, expected, atol=1e-5)
    np.testing.assert_array_equal(layer(query, memory, mask[:, None]), output)


def test_eight_heads_cost_as_much_as_one_full_head() -> None:
    one, eight = _layer(16, 1, 16, 16), _layer(16, 8, 2, 2)
    assert one.count_params() == eight.count_params() == 4 * 16 * 16

    def products(layer: Any) -> float:
        graph = tf.function(layer).get_concrete_function(*[tf.TensorSpec((4, 64, 16))] * 2).graph
        options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
        options["output"] = "none"
        found = tf.compat.v1.profiler.profile(graph, options=options)
        return found.total_float_ops

    # Each head has a softmax of its own; the matrix products are the same.
    assert 1.0 <= products(eight) / products(one) < 1.6


def test_attention_without_positions_ignores_order() -> None:
    layer = _layer()
    x = _normal(1, 5, 6)
    order = [3, 0, 4, 2, 1]
    shuffled = x[:, order]
    np.testing.assert_allclose(layer(shuffled, shuffled), layer(x, x).numpy()[:, order], atol=1e-6)


def test_dropout_of_weights_in_training_only() -> None:
    layer = _layer(dropout=0.5)
    x = _normal(2, 5, 6)
    output, weights = layer(x, x, return_weights=True)
    again, same_weights = layer(x, x, return_weights=True, training=True)
    np.testing.assert_array_equal(layer(x, x), output)
    assert np.abs(again - output).max() > 1e-3
    # The returned weights are the distribution before dropout.
    np.testing.assert_array_equal(same_weights, weights)


@pytest.mark.parametrize("return_weights", [False, True])
def test_sentence_without_keys_changes_no_other(return_weights: bool) -> None:
    layer = _layer()
    x = _normal(2, 4, 6)
    mask = tf.constant([[True] * 4, [False] * 4])[:, None, None, :]
    with tf.GradientTape() as tape:
        output = layer(x, x, mask, return_weights=return_weights)
        output = output[0] if return_weights else output
        loss = tf.reduce_sum(output**2)
    assert not output[1].numpy().any()
    for gradient in tape.gradient(loss, [weight.value for weight in layer.weights]):
        assert np.isfinite(gradient).all()
    full = layer(x, x, tf.ones([2, 1, 1, 4], tf.bool))
    np.testing.assert_array_equal(output[0], full[0])


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["plain", "blockwise"])
def test_harness_of_projections_with_biases(
    attention: str, check_layer: Callable[..., None]
) -> None:
    # Rotary: else a bias of the keys adds the same to all scores of a query, and has no effect.
    check_self_attention(
        check_layer, functools.partial(RotaryAttention, attention=attention, use_bias=True)
    )


@pytest.mark.slow
def test_biases_in_blocks_and_at_once(scatter: Callable[..., None]) -> None:
    plain, blocks = (
        MultiHeadAttention(6, 2, 4, 5, attention=kind, use_bias=True)
        for kind in ("plain", "blockwise")
    )
    x = _normal(2, 7, 6)
    expected = plain(x, x, causal=True)
    scatter(plain.weights)
    assert np.abs(plain(x, x, causal=True) - expected).max() > 0.01
    blocks.build()
    blocks.set_weights(plain.get_weights())
    np.testing.assert_allclose(blocks(x, x, causal=True), plain(x, x, causal=True), atol=1e-5)


def test_harness(check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> MultiHeadAttention:
        return MultiHeadAttention(6, 2, 4, 5, 0.1, **options)

    def call(layer: Any, x: Any, mask: Any, **options: Any) -> Any:
        return layer(x, x, mask, **options)

    def call_with_weights(layer: Any, x: Any, mask: Any, **options: Any) -> Any:
        return layer(x, x, mask, return_weights=True, **options)

    mask = tf.constant([[True, True, False], [True, True, True]])[:, None, None, :]
    check_layer(make, _normal(2, 3, 6), mask, call=call)
    check_layer(make, _normal(2, 3, 6), mask, call=call_with_weights)
