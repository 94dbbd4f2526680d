"""Blockwise attention: the result of plain attention in memory that grows with the length.

Why not plain attention: it keeps T x S weights of each head for the backward pass. Here a block
of queries meets one block of keys after the other. A softmax can be summed on the way: when a
higher score turns up, earlier sums are scaled down to it (Milakov and Gimelshein 2018). The
backward pass keeps no weights either, but computes each block again from the logarithm of every
query's sum of exponentials (Dao et al. 2022, "FlashAttention").

Masks, biases and dropout are made or sliced block by block. Where attention is causal, blocks of
keys that lie after all of a block's queries are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.model.masks import MASK_VALUE, look_ahead_mask

BLOCK = 128  # most queries, and most keys, of a block

# Highest score of a query before it has met a key. It lies so far above MASK_VALUE that the
# exponential of a masked score is 0 even for a query that may attend to nothing.
_FLOOR = MASK_VALUE / 2

ScoreBias = Callable[[tf.Tensor], tf.Tensor | None]
BlockDropout = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def blockwise_attention(
    queries: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    mask: tf.Tensor | None = None,
    causal: bool = False,
    bias: ScoreBias | None = None,
    dropout: BlockDropout | None = None,
) -> tf.Tensor:
    """Return softmax(Q Kᵀ / sqrt(d_k)) V, equation 1, without the T x S matrix of weights.

    Args:
        queries: (B, H, T, K).
        keys: (B, H, S, K).
        values: (B, H, S, K'), where K' may differ from K.
        mask: Boolean, broadcasts to (B, H, T, S); True where a query may attend to a key.
            A query that may attend to nothing gets an output of zero. A mask with T x S
            elements would itself need the memory that is to be saved.
        causal: Whether a query may attend to no later key.
        bias: A function from distances (t, s) int32, query minus key position, to a bias that
            is added to scores and broadcasts to (B, H, t, s), or to None. It has no gradient.
        dropout: A function from the shape of a block's weights and its number () to the factors
            that they are multiplied with, float32; equal numbers must give equal factors.

    Returns:
        (B, H, T, K').
    """

    @tf.custom_gradient
    def attend(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> Any:
        blocks = _Blocks(queries, keys, values, mask, causal, bias, dropout)
        output, log_sums = _forward(blocks)
        output.set_shape([*queries.shape[:3], values.shape[3]])

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            return _backward(blocks, output, log_sums, upstream)

        return output, gradient

    return attend(queries, keys, values)


class _Axis(NamedTuple):
    """Positions divided evenly into blocks; the last block may reach beyond them."""

    length: tf.Tensor
    count: tf.Tensor  # of blocks, 1 or more
    size: tf.Tensor  # of a block, 1 or more

    @classmethod
    def of(cls, x: tf.Tensor) -> _Axis:
        """Divide the third axis of ``x``."""
        length = tf.shape(x)[2]
        count = tf.maximum((length + BLOCK - 1) // BLOCK, 1)
        return cls(length, count, tf.maximum((length + count - 1) // count, 1))

    def padded(self, x: tf.Tensor) -> tf.Tensor:
        """Pad (B, H, T, K) with zeros up to the end of the last block."""
        return tf.pad(x, [[0, 0], [0, 0], [0, self.count * self.size - self.length], [0, 0]])

    def block(self, x: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """Return one block (B, H, t, K) of a padded tensor."""
        batch, heads, _, width = tf.unstack(tf.shape(x))
        part = tf.slice(x, [0, 0, number * self.size, 0], [batch, heads, self.size, width])
        part.set_shape([*x.shape[:2], None, x.shape[3]])
        return part

    def joined(self, parts: tf.TensorArray) -> tf.Tensor:
        """Join blocks to (B, H, T, K)."""
        stacked = tf.transpose(parts.stack(), [1, 2, 0, 3, 4])  # (B, H, n, t, K)
        batch, heads, count, size, width = tf.unstack(tf.shape(stacked))
        whole = tf.reshape(stacked, [batch, heads, count * size, width])  # (B, H, n * t, K)
        return whole[:, :, : self.length]


class _Blocks:
    """Queries, keys and values, and the scores of any block of them."""

    def __init__(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        mask: tf.Tensor | None,
        causal: bool,
        bias: ScoreBias | None,
        dropout: BlockDropout | None,
    ) -> None:
        self.rows, self.columns = _Axis.of(queries), _Axis.of(keys)
        self.scale = tf.cast(keys.shape[-1], queries.dtype) ** -0.5
        self.queries = self.rows.padded(queries * self.scale)
        self.keys = self.columns.padded(keys)
        self.values = self.columns.padded(values)
        self.causal, self.bias, self.dropout = causal, bias, dropout
        self.mask = None if mask is None else self._padded_mask(mask)

    def zeros(self, like: tf.Tensor, axis: _Axis, width: int) -> tf.Tensor:
        """Return a block (B, H, t, ``width``) of float32 zeros."""
        batch, heads = tf.unstack(tf.shape(like)[:2])
        return tf.zeros([batch, heads, axis.size, width])

    def scores(self, queries: tf.Tensor, keys: tf.Tensor, i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        """Return scores (B, H, t, s) of block i of queries with block j of keys, float32."""
        scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32)
        ahead = i * self.rows.size - j * self.columns.size
        if self.bias is not None:
            positions = ahead + tf.range(self.rows.size)
            bias = self.bias(positions[:, None] - tf.range(self.columns.size)[None, :])
            scores = scores if bias is None else scores + tf.cast(bias, tf.float32)
        return tf.where(self._visible(i, j, ahead), scores, MASK_VALUE)

    def factors(self, i: tf.Tensor, j: tf.Tensor, scores: tf.Tensor) -> tf.Tensor | None:
        """Return the factors of dropout for the weights of a block, (B, H, t, s)."""
        if self.dropout is None:
            return None
        return self.dropout(tf.shape(scores), i * self.columns.count + j)

    def first_row(self, j: tf.Tensor) -> tf.Tensor:
        """Return the first block of queries that may attend to block j of the keys."""
        return j * self.columns.size // self.rows.size if self.causal else tf.zeros_like(j)

    def last_column(self, i: tf.Tensor) -> tf.Tensor:
        """Return the number of blocks of keys that block i of the queries may attend to."""
        if not self.causal:
            return self.columns.count
        seen = ((i + 1) * self.rows.size - 1) // self.columns.size + 1
        return tf.minimum(seen, self.columns.count)

    def _visible(self, i: tf.Tensor, j: tf.Tensor, ahead: tf.Tensor) -> tf.Tensor:
        """Return which pairs of a block may attend, boolean, broadcasts to (B, H, t, s)."""
        keys = j * self.columns.size + tf.range(self.columns.size)
        visible = (keys < self.columns.length)[None, None, None, :]
        if self.causal:
            visible &= look_ahead_mask(self.rows.size, self.columns.size, ahead)
        if self.mask is None:
            return visible
        # An axis of size 1 broadcasts, and is not sliced.
        mask, several = self.mask, tf.shape(self.mask)[2:] > 1
        begin = tf.where(several, [i * self.rows.size, j * self.columns.size], 0)
        size = tf.where(several, [self.rows.size, self.columns.size], 1)
        batch, heads = tf.unstack(tf.shape(mask)[:2])
        return visible & tf.slice(
            mask, [0, 0, begin[0], begin[1]], [batch, heads, size[0], size[1]]
        )

    def _padded_mask(self, mask: tf.Tensor) -> tf.Tensor:
        """Give the mask four axes, and False up to the end of the last block."""
        mask = tf.convert_to_tensor(mask)
        mask = tf.reshape(mask, tf.concat([[1] * (4 - mask.shape.rank), tf.shape(mask)], axis=0))
        missing = [axis.count * axis.size - axis.length for axis in (self.rows, self.columns)]
        below, right = tf.unstack(tf.where(tf.shape(mask)[2:] > 1, missing, 0))
        return tf.pad(mask, [[0, 0], [0, 0], [0, below], [0, right]])


def _forward(blocks: _Blocks) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the output (B, H, T, K') and each query's log sum of exponentials (B, H, T, 1)."""
    rows, columns = blocks.rows, blocks.columns
    width = blocks.values.shape[-1]
    dtype = blocks.values.dtype

    def attend(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        queries = rows.block(blocks.queries, i)

        def add(j: tf.Tensor, highest: tf.Tensor, total: tf.Tensor, context: tf.Tensor) -> Any:
            scores = blocks.scores(queries, columns.block(blocks.keys, j), i, j)
            higher = tf.maximum(highest, tf.reduce_max(scores, axis=-1, keepdims=True))
            weights = tf.exp(scores - higher)  # (B, H, t, s)
            shrink = tf.exp(highest - higher)  # (B, H, t, 1)
            total = total * shrink + tf.reduce_sum(weights, axis=-1, keepdims=True)
            factors = blocks.factors(i, j, scores)
            if factors is not None:
                weights *= factors
            values = columns.block(blocks.values, j)
            more = tf.cast(tf.matmul(tf.cast(weights, dtype), values), tf.float32)
            return j + 1, higher, total, context * shrink + more

        zeros = blocks.zeros(queries, rows, 1)
        _, highest, total, context = _loop(
            0,
            blocks.last_column(i),
            add,
            [zeros + _FLOOR, zeros, blocks.zeros(queries, rows, width)],
        )
        # Both are 0 for a query without keys.
        output = tf.cast(tf.math.divide_no_nan(context, total), dtype)
        return output, tf.where(total > 0, highest + tf.math.log(total), 0.0)

    def step(i: tf.Tensor, outputs: tf.TensorArray, log_sums: tf.TensorArray) -> Any:
        output, log_sum = attend(i)
        return i + 1, outputs.write(i, output), log_sums.write(i, log_sum)

    arrays = [_array(rows, dtype, width), _array(rows, tf.float32, 1)]
    _, outputs, log_sums = _loop(0, rows.count, step, arrays)
    return rows.joined(outputs), rows.joined(log_sums)


def _backward(
    blocks: _Blocks, output: tf.Tensor, log_sums: tf.Tensor, upstream: tf.Tensor
) -> list[tf.Tensor]:
    """Return the gradients of queries, keys and values.

    With weights p, factors Z of dropout, dropped weights P = p Z and the gradient dO of the
    output O: dV = Pᵀ dO, and dS = p (Z (dO Vᵀ) - dO · O) for the scores S.
    """
    rows, columns = blocks.rows, blocks.columns
    dtype = blocks.queries.dtype
    inner = tf.reduce_sum(
        tf.cast(upstream, tf.float32) * tf.cast(output, tf.float32), axis=-1, keepdims=True
    )  # (B, H, T, 1)
    upstream, log_sums, inner = (rows.padded(x) for x in (upstream, log_sums, inner))

    def step(
        j: tf.Tensor, for_queries: tf.TensorArray, for_keys: tf.TensorArray, for_values: Any
    ) -> Any:
        keys, values = columns.block(blocks.keys, j), columns.block(blocks.values, j)

        def add(i: tf.Tensor, for_queries: tf.TensorArray, key: tf.Tensor, value: tf.Tensor) -> Any:
            queries, above = rows.block(blocks.queries, i), rows.block(upstream, i)
            scores = blocks.scores(queries, keys, i, j)
            weights = tf.exp(scores - rows.block(log_sums, i))  # (B, H, t, s)
            slopes = tf.cast(tf.matmul(above, values, transpose_b=True), tf.float32)  # (B, H, t, s)
            factors = blocks.factors(i, j, scores)
            dropped = weights
            if factors is not None:
                dropped, slopes = weights * factors, slopes * factors
            value += _product(tf.cast(dropped, dtype), above, transpose_a=True)
            slopes = tf.cast(weights * (slopes - rows.block(inner, i)), dtype)
            key += _product(slopes, queries, transpose_a=True)
            query = for_queries.read(i) + _product(slopes, keys)
            return i + 1, for_queries.write(i, query), key, value

        start = [blocks.zeros(keys, columns, x.shape[-1]) for x in (keys, values)]
        _, for_queries, key, value = _loop(
            blocks.first_row(j), rows.count, add, [for_queries, *start]
        )
        return j + 1, for_queries, for_keys.write(j, key), for_values.write(j, value)

    key_width, value_width = blocks.keys.shape[-1], blocks.values.shape[-1]
    zeros = tf.zeros([rows.count, *tf.unstack(tf.shape(blocks.queries)[:2]), rows.size, key_width])
    arrays = [
        _array(rows, tf.float32, key_width).unstack(zeros),
        _array(columns, tf.float32, key_width),
        _array(columns, tf.float32, value_width),
    ]
    _, for_queries, for_keys, for_values = _loop(0, columns.count, step, arrays)
    return [
        tf.cast(rows.joined(for_queries), dtype) * blocks.scale,
        tf.cast(columns.joined(for_keys), dtype),
        tf.cast(columns.joined(for_values), dtype),
    ]


def _product(a: tf.Tensor, b: tf.Tensor, **options: bool) -> tf.Tensor:
    return tf.cast(tf.matmul(a, b, **options), tf.float32)


def _array(axis: _Axis, dtype: tf.DType, width: int) -> tf.TensorArray:
    """Return an array for the blocks (B, H, t, ``width``) of an axis."""
    return tf.TensorArray(
        dtype,
        size=axis.count,
        element_shape=[None, None, None, width],
        clear_after_read=False,
        infer_shape=False,
    )


def _loop(start: Any, end: tf.Tensor, body: Callable[..., Any], state: list[Any]) -> Any:
    """Run ``body`` for each number from ``start`` up to ``end``, one at a time."""
    shapes = [
        tf.TensorShape([None, None, None, x.shape[-1]]) if isinstance(x, tf.Tensor) else None
        for x in state
    ]
    return tf.while_loop(
        lambda number, *_: number < end,
        body,
        [tf.convert_to_tensor(start), *state],
        [tf.TensorShape([]), *shapes],
        parallel_iterations=1,
    )
