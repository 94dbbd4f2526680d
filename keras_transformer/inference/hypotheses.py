"""What greedy and beam search share: their result, the length penalty, the next tokens.

Shapes: B batch, N hypotheses returned, R rows (B * W, W the beam width), V vocabulary,
L tokens returned, K candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

State = Any
"""A nested structure of tensors, each with leading dimension R."""

Step = Callable[[tf.Tensor, tf.Tensor, State], tuple[tf.Tensor, State]]
"""``step(tokens (R,) int32, position () int32, state) -> (logits (R, V), new state)``."""

# Stands for log 0. It is finite, because -inf * 0 and -inf - -inf are NaN, and so large that
# no sum of real log-probabilities comes near it: what lies below VOID is not a hypothesis.
NEVER = -1e9
VOID = NEVER / 2

# Columns of a block in ``top_k``: a size that divides the vocabulary spares a copy.
_BLOCKS = range(64, 257)


class Hypotheses(NamedTuple):
    """The translations found for a batch, each sentence's best first.

    Finished hypotheses stand before unfinished ones. Where the vocabulary and the limit allow
    fewer than N hypotheses, the rest is empty: length 0, log-probability and score -1e9.
    """

    tokens: tf.Tensor
    """(B, N, L) int32: the tokens with END, without START; padding after them."""
    lengths: tf.Tensor
    """(B, N) int32: tokens of each hypothesis, END counted."""
    scores: tf.Tensor
    """(B, N) float32: log-probability over length penalty."""
    log_probabilities: tf.Tensor
    """(B, N) float32: natural logarithm of P(tokens | source)."""
    finished: tf.Tensor
    """(B, N) bool: False where the limit came before END."""


class Candidates(NamedTuple):
    """Possible next tokens, best first in each row."""

    log_probabilities: tf.Tensor
    """(R, K) float32; ``NEVER`` for forbidden tokens."""
    tokens: tf.Tensor
    """(R, K) int32."""


def length_penalty(lengths: tf.Tensor, alpha: tf.Tensor | float) -> tf.Tensor:
    """((5 + length) / 6)^alpha, equation 14 of Wu et al. (2016).

    Args:
        lengths: Integers of any shape, END counted.
        alpha: 0 leaves log-probabilities as they are; more favours longer hypotheses. A
            number, or float32 that broadcasts with ``lengths``.

    Returns:
        float32 of their common shape, to divide log-probabilities by.
    """
    return ((5.0 + tf.cast(lengths, tf.float32)) / 6.0) ** alpha


def next_tokens(logits: tf.Tensor, count: int, forbidden: Sequence[int]) -> Candidates:
    """The ``count`` most probable allowed tokens of each row.

    Probabilities are those of the whole vocabulary: forbidding a token hides it, and does not
    raise the others, so that a score equals the forced score of the same tokens. Only a few
    columns are kept, so that the vocabulary is passed over twice: top-k, and the normaliser.

    Args:
        logits: (R, V) of any float type.
        count: Allowed tokens wanted; fewer come where the vocabulary has fewer.
        forbidden: Ids that must never be chosen.

    Returns:
        K = min(count + len(forbidden), V) candidates, forbidden ones marked ``NEVER``.
    """
    logits = tf.cast(logits, tf.float32)
    # So many that `count` allowed ones are left even if all forbidden ones are among them.
    best, tokens = top_k(logits, count + len(forbidden))  # (R, K)
    greatest = best[:, :1]
    total = tf.reduce_sum(tf.exp(logits - greatest), axis=-1, keepdims=True)
    log_probabilities = tf.maximum(best - greatest - tf.math.log(total), NEVER)
    for token in forbidden:
        log_probabilities = tf.where(tokens == token, NEVER, log_probabilities)
    return Candidates(log_probabilities, tokens)


def top_k(values: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The largest values of each row, as ``tf.math.top_k``, faster on wide rows.

    The K largest values lie in the K blocks with the largest maxima, so that one fast pass
    for the maxima leaves little to sort. On CPUs ``tf.math.top_k`` over a whole vocabulary
    takes as long as the projection to it.

    Args:
        values: (R, V) float32.
        count: How many; V where that is less.

    Returns:
        Values (R, K), greatest first, and their columns (R, K) int32. Among equal values it
        is open which ones are returned.
    """
    width = values.shape[-1]
    if width is None or width < 2 * count * _BLOCKS.stop:
        return tf.math.top_k(values, tf.minimum(count, tf.shape(values)[-1]))
    block = next((size for size in _BLOCKS if width % size == 0), _BLOCKS.start)
    if width % block:
        values = tf.pad(values, [[0, 0], [0, -width % block]], constant_values=-np.inf)
    blocks = tf.reshape(values, [-1, values.shape[-1] // block, block])  # (R, V / block, block)
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, axis=-1), count, sorted=False)  # (R, K)
    rest = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), [-1, count * block])
    best, places = tf.math.top_k(rest, count)
    columns = tf.gather(chosen, places // block, batch_dims=1) * block + places % block
    # Padding can only stand for a value of -inf; its column must exist all the same.
    return best, tf.minimum(columns, width - 1)


def invariants(state: State) -> State:
    """Shapes that a state may take during the loop.

    The leading dimension is open, and so is each dimension that is 0 at the start: a cache
    that begins empty and grows. All others stay as they are.

    Args:
        state: The nested structure before the first step.

    Returns:
        The same structure with a ``tf.TensorShape`` for each tensor.
    """

    def shape(tensor: tf.Tensor) -> tf.TensorShape:
        if tensor.shape.rank is None:
            return tensor.shape
        inner = [size or None for size in tensor.shape[1:]]
        return tf.TensorShape([None, *inner])

    return tf.nest.map_structure(shape, state)
