"""Autoregressive search: one hypothesis in each row, for greedy search and sampling.

Shapes: B batch, W rows of each sentence, R rows (B * W), V vocabulary, T tokens so far, START
counted, L tokens without it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import tensorflow as tf

from keras_transformer.config import LengthPenalty
from keras_transformer.inference.search.constraints import BatchConstraints
from keras_transformer.inference.search.hypotheses import INVALID_BELOW, Hypotheses
from keras_transformer.inference.search.scoring import length_penalty
from keras_transformer.inference.search.step_function import (
    State,
    Steps,
    rows_of,
    state_shape_invariants,
)
from keras_transformer.special_tokens import PAD


class _Loop(NamedTuple):
    position: tf.Tensor  # () int32, tokens produced so far
    done: tf.Tensor  # (R,) bool
    finished: tf.Tensor  # (R,) bool, END was selected
    log_probabilities: tf.Tensor  # (R,) float32
    lengths: tf.Tensor  # (R,) int64, END counted, START not
    tokens: tf.Tensor  # (R, T) int64, START first, PAD after the end
    state: State


class TokenSelector(Protocol):
    """Selection of the next token of each row."""

    def __call__(
        self, logits: tf.Tensor, tokens: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Select the next tokens.

        Args:
            logits: (R, V).
            tokens: (R, T) int64, the tokens so far, START first.
            position: () int32, tokens so far without START.

        Returns:
            The next token of each row (R,) int64, and its log-probability (R,) float32, below
            ``INVALID_BELOW`` if no token is possible.
        """

    def select(self, rows: tf.Tensor) -> TokenSelector:
        """Return the selector of some of the rows, (r,) int32."""


@dataclass(frozen=True)
class GreedySelector:
    """Selection of the most probable token that the constraints allow."""

    constraints: BatchConstraints

    def __call__(
        self, logits: tf.Tensor, tokens: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        candidates = self.constraints.candidates(logits, 1, tokens, position)
        best = tf.argmax(candidates.log_probabilities, axis=1)  # (R,)
        return (
            tf.gather(candidates.tokens, best, batch_dims=1),
            tf.gather(candidates.log_probabilities, best, batch_dims=1),
        )

    def select(self, rows: tf.Tensor) -> GreedySelector:
        return GreedySelector(self.constraints.select(rows))


@dataclass(frozen=True)
class AutoregressiveSearch:
    """A search with one hypothesis in each row; see ``strategies.greedy`` and ``sample``."""

    steps: Steps
    next_token: TokenSelector
    limits: tf.Tensor  # (R,) int64
    alpha: tf.Tensor  # (R,) float32
    form: LengthPenalty
    start: int
    end: int
    width: int  # W

    def select(self, sentences: tf.Tensor) -> AutoregressiveSearch:
        rows = rows_of(sentences, self.width)
        return dataclasses.replace(
            self,
            next_token=self.next_token.select(rows),
            limits=tf.gather(self.limits, rows),
            alpha=tf.gather(self.alpha, rows),
        )

    def done(self, loop: _Loop) -> tf.Tensor:
        return tf.reduce_all(tf.reshape(loop.done, [-1, self.width]), axis=1)  # (B,)

    def select_and_reserve(self, loop: _Loop, sentences: tf.Tensor, more: int) -> _Loop:
        rows = rows_of(sentences, self.width)

        def select(part: tf.Tensor) -> tf.Tensor:
            return tf.gather(part, rows)

        return _Loop(
            loop.position,
            select(loop.done),
            select(loop.finished),
            select(loop.log_probabilities),
            select(loop.lengths),
            select(loop.tokens),
            self.steps.select_and_reserve(loop.state, sentences, more),
        )

    def shape_invariants(self, state: State) -> _Loop:
        rows = tf.TensorShape([None])
        return _Loop(
            position=tf.TensorShape([]),
            done=rows,
            finished=rows,
            log_probabilities=rows,
            lengths=rows,
            tokens=tf.TensorShape([None, None]),
            state=state_shape_invariants(state),
        )

    def result(self, loop: _Loop) -> Hypotheses:
        """Return W hypotheses for each sentence, in the order of their rows."""
        scores = loop.log_probabilities / length_penalty(loop.lengths, self.alpha, self.form)

        def by_sentence(values: tf.Tensor) -> tf.Tensor:
            return tf.reshape(values, [-1, self.width])  # (B, W)

        tokens = loop.tokens[:, 1:]
        return Hypotheses(
            tokens=tf.reshape(tokens, [-1, self.width, loop.position]),  # (B, W, L)
            lengths=by_sentence(loop.lengths),
            scores=by_sentence(scores),
            log_probabilities=by_sentence(loop.log_probabilities),
            finished=by_sentence(loop.finished),
        )

    def initial(self, state: State) -> _Loop:
        rows = tf.shape(self.limits)[0]
        return _Loop(
            position=tf.constant(0),
            done=self.limits <= 0,
            finished=tf.fill([rows], False),
            log_probabilities=tf.zeros([rows]),
            lengths=tf.zeros([rows], tf.int64),
            tokens=tf.fill([rows, 1], tf.constant(self.start, tf.int64)),
            state=state,
        )

    def advance(self, loop: _Loop) -> _Loop:
        logits, state = self.steps(loop.tokens[:, -1], loop.position, loop.state)
        token, log_probability = self.next_token(logits, loop.tokens, loop.position)
        # If no token is possible at all, the hypothesis stays as it is.
        done = loop.done | (log_probability <= INVALID_BELOW)
        finished = loop.finished | (~done & (token == self.end))
        lengths = loop.lengths + tf.cast(~done, tf.int64)
        token = tf.where(done, tf.constant(PAD, tf.int64), token)
        return _Loop(
            position=loop.position + 1,
            done=done | finished | (lengths >= self.limits),
            finished=finished,
            log_probabilities=loop.log_probabilities + tf.where(done, 0.0, log_probability),
            lengths=lengths,
            tokens=tf.concat([loop.tokens, token[:, None]], 1),
            state=state,
        )
