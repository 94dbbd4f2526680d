"""The step function that a search decodes with, and the state that it passes on.

Tokens, parents and lengths are int64 in a search: TensorFlow computes with int32 on the host, and
a GPU would wait for each copy. Positions are scalars of the host.

Shapes: B batch, W hypotheses of each sentence, R rows (B * W), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf

State = Any
"""A nested structure of tensors that each step passes to the next."""

Step = Callable[[tf.Tensor, tf.Tensor, State], tuple[tf.Tensor, State]]
"""``step(tokens (R,) int64, position () int32, state) -> (logits (R, V), new state)``."""


@runtime_checkable
class Steps(Protocol):
    """A step function that reorders and resizes its state as the search asks."""

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        """Decode one position, as ``Step``."""

    def reorder(self, state: State, parents: tf.Tensor) -> State:
        """Let row w of sentence b continue from its row ``parents[b, w]``; (B, W) int64."""

    def select_and_reserve(self, state: State, sentences: tf.Tensor, more: int) -> State:
        """Select sentences, (b,) int32, and reserve room in the caches for ``more`` steps."""


@dataclass(frozen=True)
class PlainSteps:
    """``Steps`` of a plain step function whose state has R rows in each of its tensors."""

    step: Step
    width: int
    """W, hypotheses of each sentence."""

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        return self.step(tokens, position, state)

    def reorder(self, state: State, parents: tf.Tensor) -> State:
        sentences = tf.range(tf.shape(parents, parents.dtype)[0])[:, None]
        rows = tf.reshape(sentences * self.width + parents, [-1])  # (R,)
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)

    def select_and_reserve(self, state: State, sentences: tf.Tensor, more: int) -> State:
        rows = rows_of(sentences, self.width)
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)


def as_steps(step: Step | Steps, width: int) -> Steps:
    """Return ``step`` as ``Steps`` with ``width`` rows for each sentence."""
    return step if isinstance(step, Steps) else PlainSteps(step, width)


def rows_of(sentences: tf.Tensor, width: int) -> tf.Tensor:
    """Return the W rows of each of b sentences, (b * W,) int32."""
    return tf.reshape(sentences[:, None] * width + tf.range(width), [-1])  # (b * W,)


def state_shape_invariants(state: State) -> State:
    """Return the shapes that a state may take during decoding.

    The leading dimension is open, and so is each dimension that is 0 at the start: a cache
    that begins empty and grows. All others are fixed; scalars stay scalars.

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
