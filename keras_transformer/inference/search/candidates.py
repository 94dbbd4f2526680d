"""Candidates for the next token, with their log-probabilities.

Shapes: R rows, V vocabulary, K candidates, J banned ids of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.inference.search.hypotheses import NEG_INF
from keras_transformer.special_tokens import PAD

NO_TOKEN = -1
"""Padding of lists of ids."""

# Columns of a block in ``top_k``: a size that divides the vocabulary saves a copy.
_BLOCK_SIZES = range(48, 257)
# Most forbidden ids that are compared with each candidate. For more, a pass over the vocabulary
# hides them from the ranking.
_MAX_COMPARED = 16
# Assumed count if it is a tensor, whose value is unknown when traced.
_USUAL_COUNT = 16


class Candidates(NamedTuple):
    """Possible next tokens, best first in each row."""

    log_probabilities: tf.Tensor
    """(R, K) float32 of the model; ``NEG_INF`` for tokens that are not allowed."""
    tokens: tf.Tensor
    """(R, K) int64."""


def next_tokens(
    logits: tf.Tensor,
    count: tf.Tensor | int,
    forbidden: Sequence[int],
    *,
    banned: tf.Tensor | None = None,
    forced: tf.Tensor | None = None,
    order: tf.Tensor | None = None,
) -> Candidates:
    """Return the ``count`` best allowed tokens of each row.

    Probabilities are those of the whole vocabulary: banning a token does not raise the others,
    so that a score equals the forced score of the same tokens. There are only two passes over
    the vocabulary: top-k, and the softmax, of which only the greatest value is used.

    Args:
        logits: (R, V) of any float type.
        count: Allowed tokens wanted; fewer if the vocabulary has fewer.
        forbidden: Ids banned in all rows.
        banned: (R, J) int64, further ids banned in each row, filled up with ``NO_TOKEN``.
        forced: (R,) int64, the only id allowed in a row, even if it is banned; ``PAD`` leaves
            the row free.
        order: (R, V) float32, values to rank tokens by; None: the logits.

    Returns:
        K >= min(count, V) candidates, at least ``count`` of them allowed if so many exist; the
        log-probability of the others is ``NEG_INF``.
    """
    logits = tf.cast(logits, tf.float32)
    masked = len(forbidden) > _MAX_COMPARED and logits.shape[-1] is not None
    if masked:
        hidden = np.zeros(logits.shape[-1], bool)
        hidden[list(forbidden)] = True
        order = tf.where(hidden, -np.inf, logits if order is None else order)
        forbidden = ()
    needed = count + len(forbidden)
    if banned is not None:
        ids = tf.reduce_sum(tf.cast(banned != NO_TOKEN, tf.int64), axis=1)
        most = tf.maximum(tf.reduce_max(ids), 0)  # without rows the maximum is below 0
        needed += tf.cast(most, tf.int32)
    if order is None:
        best, tokens = top_k(logits, needed)  # (R, K)
        greatest = best[:, :1]
        likeliest = tokens[:, :1]
    else:
        ranks, tokens = top_k(order, needed)
        best = tf.gather(logits, tokens, batch_dims=1)
        likeliest = tf.argmax(logits, axis=-1)[:, None]
        greatest = tf.gather(logits, likeliest, batch_dims=1)
    # The greatest probability is at least 1 / V: its logarithm is exact, while smaller
    # probabilities may underflow. One softmax is faster than exp and sum.
    shift = -tf.math.log(tf.gather(tf.nn.softmax(logits), likeliest, batch_dims=1))  # (R, 1)
    log_probabilities = tf.maximum(best - greatest - shift, NEG_INF)
    for token in forbidden:
        log_probabilities = tf.where(tokens == token, NEG_INF, log_probabilities)
    if masked:
        log_probabilities = tf.where(ranks > -np.inf, log_probabilities, NEG_INF)
    if banned is not None:
        is_banned = tf.reduce_any(tokens[:, :, None] == banned[:, None, :], axis=2)
        log_probabilities = tf.where(is_banned, NEG_INF, log_probabilities)
    if forced is not None:
        # In a forced row the first candidate is the forced token, and the only possible one.
        is_forced = (forced != PAD)[:, None]
        own = tf.gather(logits, forced[:, None], batch_dims=1) - greatest - shift  # (R, 1)
        first = tf.range(tf.shape(tokens)[1]) == 0
        own = tf.where(first, tf.maximum(own, NEG_INF), NEG_INF)
        log_probabilities = tf.where(is_forced, own, log_probabilities)
        tokens = tf.where(is_forced, forced[:, None], tokens)
    for values in (log_probabilities, tokens):
        values.set_shape([None, None])  # lost if several dimensions are unknown
    return Candidates(log_probabilities, tokens)


def top_k(values: tf.Tensor, count: tf.Tensor | int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the largest values of each row, as ``tf.math.top_k``, but faster on wide rows.

    The K largest values lie in the K blocks with the largest maxima, so that one fast pass
    for the maxima leaves little to sort. On CPUs ``tf.math.top_k`` over a whole vocabulary
    takes as long as the projection to it.

    Args:
        values: (R, V) float32.
        count: K; at most V are returned.

    Returns:
        Values (R, K), greatest first, and their columns (R, K) int64. Among equal values any
        may be returned.
    """
    width = values.shape[-1]
    usual = count if isinstance(count, int) else _USUAL_COUNT
    if width is None or width < 2 * usual * _BLOCK_SIZES.stop:
        # Cast, since top_k with another type of index has no kernel for GPUs.
        best, columns = tf.math.top_k(values, tf.minimum(count, tf.shape(values)[-1]))
        return best, tf.cast(columns, tf.int64)
    count = tf.minimum(count, width)
    block = next((size for size in _BLOCK_SIZES if width % size == 0), _BLOCK_SIZES.start)
    if width % block:
        values = tf.pad(values, [[0, 0], [0, -width % block]], constant_values=-np.inf)
    number = values.shape[-1] // block
    blocks = tf.reshape(values, [-1, number, block])  # (R, V / block, block)
    kept = tf.minimum(count, number)
    maxima = tf.reduce_max(blocks, axis=-1)  # (R, V / block)
    _, chosen = tf.math.top_k(maxima, kept, sorted=False)  # (R, K)
    rest = tf.gather(blocks, chosen, batch_dims=1)  # (R, K, block)
    rest = tf.reshape(rest, [-1, kept * block])  # (R, K * block)
    best, places = tf.math.top_k(rest, count)
    chosen, places = tf.cast(chosen, tf.int64), tf.cast(places, tf.int64)
    columns = tf.gather(chosen, places // block, batch_dims=1) * block + places % block
    # A padded column is returned only for a value of -inf; clip it to one that exists.
    return best, tf.minimum(columns, tf.constant(width - 1, tf.int64))
