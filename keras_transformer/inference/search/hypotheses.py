"""What every search shares: the step function, the result, the length penalty.

Shapes: B batch, N hypotheses returned, R rows (B * N or B * W, W the beam width),
V vocabulary, L tokens returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import tensorflow as tf

State = Any
"""A nested structure of tensors: what a step gets from the one before it."""

Step = Callable[[tf.Tensor, tf.Tensor, State], tuple[tf.Tensor, State]]
"""``step(tokens (R,) int32, position () int32, state) -> (logits (R, V), new state)``."""


@runtime_checkable
class Steps(Protocol):
    """A step function that says how its state follows the search."""

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        """As ``Step``."""

    def reorder(self, state: State, parents: tf.Tensor) -> State:
        """The state in which row w of a sentence goes on from its row parents[b, w], (B, W)."""

    def select_and_reserve(self, state: State, sentences: tf.Tensor, more: int) -> State:
        """The state of some of the sentences, (b,) int32, with room for ``more`` steps."""


@dataclass(frozen=True)
class RowByRow:
    """`Steps` of a plain step function, whose state has R rows in each of its tensors."""

    step: Step
    width: int
    """W, rows of a sentence."""

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        return self.step(tokens, position, state)

    def reorder(self, state: State, parents: tf.Tensor) -> State:
        sentences = tf.range(tf.shape(parents)[0])[:, None]
        rows = tf.reshape(sentences * self.width + parents, [-1])
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)

    def select_and_reserve(self, state: State, sentences: tf.Tensor, more: int) -> State:
        rows = rows_of(sentences, self.width)
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)


def steps_of(step: Step | Steps, width: int) -> Steps:
    """``step`` as `Steps`, with ``width`` rows for each sentence."""
    return step if isinstance(step, Steps) else RowByRow(step, width)


def rows_of(sentences: tf.Tensor, width: int) -> tf.Tensor:
    """The W rows of each of b sentences, (b * W,) int32."""
    return tf.reshape(sentences[:, None] * width + tf.range(width), [-1])


# Stands for log 0. It is finite, because -inf * 0 and -inf - -inf are NaN, and so large that
# no sum of real log-probabilities comes near it: what lies below INVALID_BELOW is not a hypothesis.
NEG_INF = -1e9
INVALID_BELOW = NEG_INF / 2


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


def invariants(state: State) -> State:
    """Shapes that a state may take during the loop.

    The leading dimension is open, and so is each dimension that is 0 at the start: a cache
    that begins empty and grows. All others stay as they are, and a number stays one.

    Args:
        state: The nested structure before the first step.

    Returns:
        The same structure with a ``tf.TensorShape`` for each tensor.
    """

    def shape(tensor: tf.Tensor) -> tf.TensorShape:
        if not tensor.shape.rank:
            return tensor.shape
        inner = [size or None for size in tensor.shape[1:]]
        return tf.TensorShape([None, *inner])

    return tf.nest.map_structure(shape, state)
