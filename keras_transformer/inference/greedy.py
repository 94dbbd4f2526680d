"""Greedy search: the most probable token at each step, as one ``tf.while_loop``.

Shapes: B batch, V vocabulary, T tokens so far, START counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from keras_transformer.data.tokenizer import PAD
from keras_transformer.inference import hypotheses
from keras_transformer.inference.hypotheses import VOID, Hypotheses, State, Step


class _Loop(NamedTuple):
    position: tf.Tensor  # () int32, tokens produced so far
    done: tf.Tensor  # (B,) bool
    finished: tf.Tensor  # (B,) bool, END was chosen
    log_probabilities: tf.Tensor  # (B,) float32
    lengths: tf.Tensor  # (B,) int32, END counted, START not
    tokens: tf.Tensor  # (B, T) int32, START first, PAD after the end
    state: State


@dataclass(frozen=True)
class Greedy:
    """One greedy search; see ``search.greedy`` for the arguments."""

    step: Step
    limits: tf.Tensor
    alpha: tf.Tensor  # (B,) float32
    start: int
    end: int
    forbidden: tuple[int, ...]

    def run(self, state: State) -> Hypotheses:
        """Search from the given state to the end.

        Args:
            state: What the first step gets; each tensor has B rows.
        """
        rows = tf.TensorShape([None])
        shapes = _Loop(
            position=tf.TensorShape([]),
            done=rows,
            finished=rows,
            log_probabilities=rows,
            lengths=rows,
            tokens=tf.TensorShape([None, None]),
            state=hypotheses.invariants(state),
        )
        (loop,) = tf.while_loop(
            lambda loop: tf.reduce_any(~loop.done),
            lambda loop: (self._advance(loop),),
            (self._initial(state),),
            shape_invariants=(shapes,),
        )
        scores = loop.log_probabilities / hypotheses.length_penalty(loop.lengths, self.alpha)
        return Hypotheses(
            tokens=loop.tokens[:, None, 1:],
            lengths=loop.lengths[:, None],
            scores=scores[:, None],
            log_probabilities=loop.log_probabilities[:, None],
            finished=loop.finished[:, None],
        )

    def _initial(self, state: State) -> _Loop:
        batch = tf.shape(self.limits)[0]
        return _Loop(
            position=tf.constant(0),
            done=self.limits <= 0,
            finished=tf.fill([batch], False),
            log_probabilities=tf.zeros([batch]),
            lengths=tf.zeros([batch], tf.int32),
            tokens=tf.fill([batch, 1], self.start),
            state=state,
        )

    def _advance(self, loop: _Loop) -> _Loop:
        logits, state = self.step(loop.tokens[:, -1], loop.position, loop.state)
        found = hypotheses.next_tokens(logits, 1, self.forbidden)
        best = tf.argmax(found.log_probabilities, axis=1, output_type=tf.int32)  # (B,)
        token = tf.gather(found.tokens, best, batch_dims=1)
        added = tf.gather(found.log_probabilities, best, batch_dims=1)
        # Where no token is possible at all, what there is stays as it is.
        done = loop.done | (added <= VOID)
        finished = loop.finished | (~done & (token == self.end))
        lengths = loop.lengths + tf.cast(~done, tf.int32)
        return _Loop(
            position=loop.position + 1,
            done=done | finished | (lengths >= self.limits),
            finished=finished,
            log_probabilities=loop.log_probabilities + tf.where(done, 0.0, added),
            lengths=lengths,
            tokens=tf.concat([loop.tokens, tf.where(done, PAD, token)[:, None]], 1),
            state=state,
        )
