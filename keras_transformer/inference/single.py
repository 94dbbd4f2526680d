"""One hypothesis a row, one token after another: greedy search and sampling.

Shapes: R rows, V vocabulary, T tokens so far, START counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from keras_transformer.data.tokenizer import PAD
from keras_transformer.inference import hypotheses
from keras_transformer.inference.hypotheses import VOID, Hypotheses, State, Step
from keras_transformer.inference.rules import Bound


class _Loop(NamedTuple):
    position: tf.Tensor  # () int32, tokens produced so far
    done: tf.Tensor  # (R,) bool
    finished: tf.Tensor  # (R,) bool, END was chosen
    log_probabilities: tf.Tensor  # (R,) float32
    lengths: tf.Tensor  # (R,) int32, END counted, START not
    tokens: tf.Tensor  # (R, T) int32, START first, PAD after the end
    state: State


Choice = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""``choose(logits (R, V), tokens (R, T) int32, position () int32) -> (the next token of each
row (R,) int32, its log-probability (R,) float32, below VOID where none is possible)``."""


def most_probable(rules: Bound) -> Choice:
    """The choice of greedy search: the most probable token that the rules allow."""

    def choose(
        logits: tf.Tensor, tokens: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        found = rules.candidates(logits, 1, tokens, position)
        best = tf.argmax(found.log_probabilities, axis=1, output_type=tf.int32)  # (R,)
        return (
            tf.gather(found.tokens, best, batch_dims=1),
            tf.gather(found.log_probabilities, best, batch_dims=1),
        )

    return choose


@dataclass(frozen=True)
class Single:
    """One search of one hypothesis a row; see ``search.greedy`` and ``search.sample``."""

    step: Step
    choose: Choice
    limits: tf.Tensor  # (R,) int32
    alpha: tf.Tensor  # (R,) float32
    start: int
    end: int

    def run(self, state: State) -> Hypotheses:
        """Search from the given state to the end.

        Args:
            state: What the first step gets; each tensor has R rows.

        Returns:
            One hypothesis for each row: B = R, N = 1.
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
        rows = tf.shape(self.limits)[0]
        return _Loop(
            position=tf.constant(0),
            done=self.limits <= 0,
            finished=tf.fill([rows], False),
            log_probabilities=tf.zeros([rows]),
            lengths=tf.zeros([rows], tf.int32),
            tokens=tf.fill([rows, 1], self.start),
            state=state,
        )

    def _advance(self, loop: _Loop) -> _Loop:
        logits, state = self.step(loop.tokens[:, -1], loop.position, loop.state)
        token, added = self.choose(logits, loop.tokens, loop.position)
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
