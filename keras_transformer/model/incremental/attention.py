"""Attention from one target position, with the weights of a `MultiHeadAttention` layer.

Each sentence has W rows, all at the same position. Tensors that all steps share are computed
once: the joint projection with scaled queries, additive masks, the cross-attention cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.incremental.caches import KeysValues
from keras_transformer.model.kernels.linear import project


class StepContext(NamedTuple):
    """Inputs that all layers share in one step."""

    position: tf.Tensor | int
    """Target position of all rows."""
    beam: int
    """W, rows of a sentence."""
    slots: tf.Tensor
    """() int32, C * W: slots per sentence in the self-attention caches."""
    rows: tf.Tensor
    """(B * H,) int32, rows of the self-attention caches that this step fills."""
    self_bias: tf.Tensor
    """(B, H, W, C * W) float32, added to the scores of self-attention."""
    source_bias: tf.Tensor
    """(B, H, W, S) float32, added to the scores of cross-attention."""


class JointProjection(NamedTuple):
    """Projection to scaled queries, keys and values in one product instead of three."""

    kernel: tf.Tensor
    """(D, H * (2 K + K')) in the layer's compute dtype."""
    bias: tf.Tensor | None
    """(H * (2 K + K'),), if the layer has biases."""


def joint_projection(layer: MultiHeadAttention) -> JointProjection:
    """Concatenate the query, key and value projections, with the scale of the scores in queries."""

    def joint(query: Any, *others: Any) -> tf.Tensor:
        scaled = tf.convert_to_tensor(query) * layer.score_scale
        parts = [scaled, *map(tf.convert_to_tensor, others)]
        return tf.cast(tf.concat(parts, axis=-1), layer.compute_dtype)

    kernel = joint(layer.query_kernel, layer.key_kernel, layer.value_kernel)
    if not layer.use_bias:
        return JointProjection(kernel, None)
    return JointProjection(kernel, joint(layer.query_bias, layer.key_bias, layer.value_bias))


def self_attention_step(
    layer: MultiHeadAttention,
    x: tf.Tensor,
    joint: JointProjection,
    cache: KeysValues,
    context: StepContext,
) -> tuple[tf.Tensor, KeysValues]:
    """Attend from one position to itself and earlier ones.

    Args:
        layer: The self-attention layer.
        x: (R, D), the W rows of a sentence adjacent.
        joint: From `joint_projection`.
        cache: Rows of keys (B * H * C, W * K) and values (B * H * C, W * K').
        context: The step.

    Returns:
        (R, D), and the cache with the keys and values of this position.
    """
    queries, new = _project_position(layer, x, joint, context)
    # In place: a functional update would copy the whole cache to write one position.
    cache = KeysValues(
        *(
            tf.raw_ops.InplaceUpdate(x=rows, i=context.rows, v=own)
            for rows, own in zip(cache, new, strict=True)
        )
    )
    by_slot = KeysValues(
        *(
            tf.reshape(part, [-1, layer.heads, context.slots, width])  # (B, H, C * W, K)
            for part, width in zip(cache, (layer.key_width, layer.value_width), strict=True)
        )
    )
    return _attend(layer, queries, by_slot, context.self_bias), cache


def cross_attention_cache(
    layer: MultiHeadAttention, memory: tf.Tensor, source_mask: tf.Tensor
) -> KeysValues:
    """Compute the keys and values of the encoder's output, once for all steps.

    Args:
        layer: The cross-attention layer.
        memory: (B, S, D) from the encoder.
        source_mask: Boolean (B, 1, 1, S).

    Returns:
        Keys (B, H, K, S), transposed for the products of every step, and values (B, H, S, K').
    """
    keys, values = layer.keys_values(memory)
    keys = tf.transpose(keys, [0, 1, 3, 2])  # (B, H, K, S)
    # Zero values for a source of padding only, whose attention weights are arbitrary.
    real = tf.reduce_any(source_mask, axis=-1, keepdims=True)  # (B, 1, 1, 1)
    return KeysValues(keys, values * tf.cast(real, values.dtype))


def cross_attention_step(
    layer: MultiHeadAttention, x: tf.Tensor, cache: KeysValues, context: StepContext
) -> tf.Tensor:
    """Attend from one position to the source.

    Args:
        layer: The cross-attention layer.
        x: (R, D), the W rows of a sentence adjacent.
        cache: From `cross_attention_cache`, once for each sentence.
        context: The step.

    Returns:
        (R, D).
    """
    queries = project(x, layer.query_kernel, layer.query_bias) * layer.score_scale  # (R, H * K)
    # The W rows of a sentence attend to the same keys, like W positions.
    queries = _split_rows(queries, layer.heads, context.beam, layer.key_width)
    return _attend(layer, queries, cache, context.source_bias, keys_transposed=True)


def _project_position(
    layer: MultiHeadAttention, x: tf.Tensor, joint: JointProjection, context: StepContext
) -> tuple[tf.Tensor, KeysValues]:
    """Project (R, D) to scaled queries and to new rows of the cache.

    Returns:
        Queries (B, H, W, K), keys (B * H, W * K) and values (B * H, W * K').
    """
    heads, beam = layer.heads, context.beam
    widths = layer.key_width, layer.key_width, layer.value_width
    parts = project(x, joint.kernel, joint.bias)  # (R, H * (2 K + K'))
    queries, keys, values = tf.split(parts, [heads * width for width in widths], axis=1)
    encoded = (
        _encode_positions(layer, queries, context),
        _encode_positions(layer, keys, context),
        values,
    )
    queries, keys, values = (
        _split_rows(part, heads, beam, width) for part, width in zip(encoded, widths, strict=True)
    )
    return queries, KeysValues(
        tf.reshape(keys, [-1, beam * layer.key_width]),
        tf.reshape(values, [-1, beam * layer.value_width]),
    )


def _encode_positions(layer: MultiHeadAttention, x: tf.Tensor, context: StepContext) -> tf.Tensor:
    """Apply the layer's `encode_positions` to queries or keys (R, H * K): (R, H, 1, K)."""
    x = tf.reshape(x, [-1, layer.heads, 1, layer.key_width])  # (R, H, 1, K)
    return layer.encode_positions(x, context.position)


def _attend(
    layer: MultiHeadAttention,
    queries: tf.Tensor,
    keys_values: KeysValues,
    bias: tf.Tensor,
    keys_transposed: bool = False,
) -> tf.Tensor:
    """Attend with scaled queries, concatenate the heads and project.

    Args:
        layer: Its output projection is used.
        queries: (B, H, W, K), scaled.
        keys_values: Keys (B, H, S, K) and values (B, H, S, K').
        bias: (B, H, W, S) float32, added to the scores.
        keys_transposed: Whether the keys are (B, H, K, S), which halves the time of the
            scores.

    Returns:
        (R, D).
    """
    keys, values = keys_values
    scores = tf.matmul(queries, keys, transpose_b=not keys_transposed)  # (B, H, W, S)
    weights = tf.nn.softmax(tf.cast(scores, tf.float32) + bias)
    context = tf.matmul(tf.cast(weights, queries.dtype), values)  # (B, H, W, K')
    if context.shape[2] != 1:
        context = _swap_axes(context)  # (B, W, H, K')
    context = tf.reshape(context, [-1, layer.heads * layer.value_width])  # (R, H * K')
    return project(context, layer.output_kernel, layer.output_bias)  # (R, D)


def _split_rows(x: tf.Tensor, heads: int, beam: int, width: int) -> tf.Tensor:
    """Split features (R, H * K) by sentence and head: (B, H, W, K)."""
    if beam == 1:  # nothing to transpose
        return tf.reshape(x, [-1, heads, 1, width])
    return _swap_axes(tf.reshape(x, [-1, beam, heads, width]))


def _swap_axes(x: tf.Tensor) -> tf.Tensor:
    """Swap the second and third of four axes.

    It moves integers, because oneDNN transposes floats: for the few elements of a step, its
    planning takes longer than the copy.
    """
    bits = tf.bitcast(x, tf.int32 if x.dtype == tf.float32 else tf.int16)
    return tf.bitcast(tf.transpose(bits, [0, 2, 1, 3]), x.dtype)
