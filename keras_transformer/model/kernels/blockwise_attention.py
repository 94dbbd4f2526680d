"""Attention in blocks: what plain attention gives, in memory that grows with the length.

Plain attention keeps T x S weights of each head for the backward pass. Here a block of
queries meets one block of keys after the other. A softmax can be summed up on the way: with
the highest score so far known, earlier sums are scaled down to it (Milakov and Gimelshein,
2018). The backward pass keeps no weights either. It computes each block's anew, from the
logarithm of every query's sum of exponentials (Dao et al., 2022, "FlashAttention").

Masks, biases and dropout are made or cut out block by block. Blocks of keys that lie after
all of a block's queries are passed over where attention is causal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.model.masks import look_ahead_mask

BLOCK = 128  # most queries, and most keys, of a block

# A masked score is so low that its exponential is 0 even for a query without any key, whose
# highest score is _FLOOR. The lowest float itself could overflow in a difference.
_MASKED = tf.float32.min / 2
_FLOOR = tf.float32.min / 4

BlockBias = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
BlockDropout = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def blockwise_attention(
    queries: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    mask: tf.Tensor | None = None,
    causal: bool = False,
    bias: BlockBias | None = None,
    dropout: BlockDropout | None = None,
) -> tf.Tensor:
    """softmax(Q Kᵀ / sqrt(d_k)) V, equation 1, without the T x S matrix of weights.

    Args:
        queries: (B, H, T, K).
        keys: (B, H, S, K).
        values: (B, H, S, K'), where K' may differ from K.
        mask: Boolean, broadcasts to (B, H, T, S); True where a query may attend to a key.
            A query that may attend to nothing gets an output of zero. To save memory, it
            should not itself have T x S elements.
        causal: Whether a query sees no later key.
        bias: Added to the scores; it has no gradient. Called with the position of a block's
            first query seen from its first key, t queries and s keys, it gives what
            broadcasts to (B, H, t, s).
        dropout: Called with the shape of a block's weights and its number (), it gives what
            they are multiplied with, float32; for one number always the same.

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
    """Positions shared out evenly among blocks; the last block may reach beyond them."""

    length: tf.Tensor
    count: tf.Tensor  # of blocks, 1 or more
    size: tf.Tensor  # of a block, 1 or more

    @classmethod
    def of(cls, x: tf.Tensor) -> _Axis:
        """The third axis of ``x``."""
        length = tf.shape(x)[2]
        count = tf.maximum((length + BLOCK - 1) // BLOCK, 1)
        return cls(length, count, tf.maximum((length + count - 1) // count, 1))

    def padded(self, x: tf.Tensor) -> tf.Tensor:
        """(B, H, T, K) with zeros up to the end of the last block."""
        return tf.pad(x, [[0, 0], [0, 0], [0, self.count * self.size - self.length], [0, 0]])

    def block(self, x: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """One block (B, H, t, K) of what ``padded`` gave."""
        batch, heads, _, width = tf.unstack(tf.shape(x))
        part = tf.slice(x, [0, 0, number * self.size, 0], [batch, heads, self.size, width])
        part.set_shape([*x.shape[:2], None, x.shape[3]])
        return part

    def joined(self, parts: tf.TensorArray) -> tf.Tensor:
        """(B, H, T, K) from its blocks."""
        stacked = tf.transpose(parts.stack(), [1, 2, 0, 3, 4])  # (B, H, n, t, K)
        batch, heads, count, size, width = tf.unstack(tf.shape(stacked))
        whole = tf.reshape(stacked, [batch, heads, count * size, width])
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
        bias: BlockBias | None,
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
        """A block (B, H, t, ``width``) of float32 zeros."""
        batch, heads = tf.unstack(tf.shape(like)[:2])
        return tf.zeros([batch, heads, axis.size, width])

    def scores(self, queries: tf.Tensor, keys: tf.Tensor, i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        """Scores (B, H, t, s) of block i of the queries with block j of the keys, float32."""
        scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32)
        ahead = i * self.rows.size - j * self.columns.size
        if self.bias is not None:
            scores += tf.cast(self.bias(ahead, self.rows.size, self.columns.size), tf.float32)
        return tf.where(self._visible(i, j, ahead), scores, _MASKED)

    def dropped(self, i: tf.Tensor, j: tf.Tensor, scores: tf.Tensor) -> tf.Tensor | None:
        """What dropout multiplies the weights of a block with."""
        if self.dropout is None:
            return None
        return self.dropout(tf.shape(scores), i * self.columns.count + j)

    def first_row(self, j: tf.Tensor) -> tf.Tensor:
        """The first block of queries that may see block j of the keys."""
        return j * self.columns.size // self.rows.size if self.causal else tf.zeros_like(j)

    def last_column(self, i: tf.Tensor) -> tf.Tensor:
        """The number of blocks of keys that block i of the queries may see."""
        if not self.causal:
            return self.columns.count
        seen = ((i + 1) * self.rows.size - 1) // self.columns.size + 1
        return tf.minimum(seen, self.columns.count)

    def _visible(self, i: tf.Tensor, j: tf.Tensor, ahead: tf.Tensor) -> tf.Tensor:
        """Boolean, broadcasts to (B, H, t, s)."""
        keys = j * self.columns.size + tf.range(self.columns.size)
        visible = (keys < self.columns.length)[None, None, None, :]
        if self.causal:
            visible &= look_ahead_mask(self.rows.size, self.columns.size, ahead)
        if self.mask is None:
            return visible
        mask, several = self.mask, tf.shape(self.mask)[2:] > 1
        begin = tf.where(several, [i * self.rows.size, j * self.columns.size], 0)
        size = tf.where(several, [self.rows.size, self.columns.size], 1)
        batch, heads = tf.unstack(tf.shape(mask)[:2])
        return visible & tf.slice(
            mask, [0, 0, begin[0], begin[1]], [batch, heads, size[0], size[1]]
        )

    def _padded_mask(self, mask: tf.Tensor) -> tf.Tensor:
        """With four axes, and False up to the end of the last block."""
        mask = tf.convert_to_tensor(mask)
        mask = tf.reshape(mask, tf.concat([[1] * (4 - mask.shape.rank), tf.shape(mask)], axis=0))
        missing = [axis.count * axis.size - axis.length for axis in (self.rows, self.columns)]
        below, right = tf.unstack(tf.where(tf.shape(mask)[2:] > 1, missing, 0))
        return tf.pad(mask, [[0, 0], [0, 0], [0, below], [0, right]])


def _forward(blocks: _Blocks) -> tuple[tf.Tensor, tf.Tensor]:
    """The output (B, H, T, K') and each query's log sum of exponentials (B, H, T, 1) float32."""
    rows, columns = blocks.rows, blocks.columns
    width = blocks.values.shape[-1]
    dtype = blocks.values.dtype

    def attend(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        queries = rows.block(blocks.queries, i)

        def add(j: tf.Tensor, highest: tf.Tensor, total: tf.Tensor, context: tf.Tensor) -> Any:
            scores = blocks.scores(queries, columns.block(blocks.keys, j), i, j)
            higher = tf.maximum(highest, tf.reduce_max(scores, axis=-1, keepdims=True))
            weights = tf.exp(scores - higher)  # (B, H, t, s)
            shrink = tf.exp(highest - higher)
            total = total * shrink + tf.reduce_sum(weights, axis=-1, keepdims=True)
            factors = blocks.dropped(i, j, scores)
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
    """Gradients of queries, keys and values.

    With weights P after dropout and Z what dropout multiplied with, and the gradient dO of
    the output O: dV = Pᵀ dO, and for the scores P (dO Vᵀ) - p (dO · O), where p are the
    weights before dropout.
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
            slopes = tf.cast(tf.matmul(above, values, transpose_b=True), tf.float32)
            factors = blocks.dropped(i, j, scores)
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
    nothing = tf.zeros(
        [rows.count, *tf.unstack(tf.shape(blocks.queries)[:2]), rows.size, key_width]
    )
    arrays = [
        _array(rows, tf.float32, key_width).unstack(nothing),
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
    """Room for the blocks (B, H, t, ``width``) of an axis."""
    return tf.TensorArray(
        dtype,
        size=axis.count,
        element_shape=[None, None, None, width],
        clear_after_read=False,
        infer_shape=False,
    )


def _loop(start: Any, end: tf.Tensor, body: Callable[..., Any], state: list[Any]) -> Any:
    """``body`` for each number from ``start`` up to ``end``, one at a time."""
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
