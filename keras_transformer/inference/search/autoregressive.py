"""One hypothesis a row, one token after another: greedy search and sampling.

Shapes: R rows, V vocabulary, T tokens so far, START counted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import tensorflow as tf

from keras_transformer.data.tokenizer import PAD
from keras_transformer.inference.search import hypotheses
from keras_transformer.inference.search.constraints import BatchConstraints
from keras_transformer.inference.search.hypotheses import INVALID_BELOW, Hypotheses, State, Steps


class _Loop(NamedTuple):
    position: tf.Tensor  # () int32, tokens produced so far
    done: tf.Tensor  # (R,) bool
    finished: tf.Tensor  # (R,) bool, END was chosen
    log_probabilities: tf.Tensor  # (R,) float32
    lengths: tf.Tensor  # (R,) int32, END counted, START not
    tokens: tf.Tensor  # (R, T) int32, START first, PAD after the end
    state: State


class TokenSelector(Protocol):
    """How the next token of each row is chosen."""

    def __call__(
        self, logits: tf.Tensor, tokens: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The next tokens.

        Args:
            logits: (R, V).
            tokens: (R, T) int32, those so far, START first.
            position: () int32, tokens so far without START.

        Returns:
            The next token of each row (R,) int32, and its log-probability (R,) float32, below
            INVALID_BELOW where none is possible.
        """

    def of(self, rows: tf.Tensor) -> TokenSelector:
        """The choice for some of the rows, (r,) int32."""


@dataclass(frozen=True)
class MostProbable:
    """The choice of greedy search: the most probable token that the rules allow."""

    constraints: BatchConstraints

    def __call__(
        self, logits: tf.Tensor, tokens: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See ``TokenSelector``."""
        found = self.constraints.candidates(logits, 1, tokens, position)
        best = tf.argmax(found.log_probabilities, axis=1, output_type=tf.int32)  # (R,)
        return (
            tf.gather(found.tokens, best, batch_dims=1),
            tf.gather(found.log_probabilities, best, batch_dims=1),
        )

    def of(self, rows: tf.Tensor) -> MostProbable:
        """The choice for some of the rows, (r,) int32."""
        return MostProbable(self.constraints.of(rows))


@dataclass(frozen=True)
class AutoregressiveSearch:
    """One search of one hypothesis a row; see ``search.greedy`` and ``search.sample``."""

    steps: Steps
    choose: TokenSelector
    limits: tf.Tensor  # (R,) int32
    alpha: tf.Tensor  # (R,) float32
    start: int
    end: int
    width: int  # rows of a sentence

    def of(self, sentences: tf.Tensor) -> AutoregressiveSearch:
        """The same search for some of the sentences, (b,) int32."""
        rows = hypotheses.rows_of(sentences, self.width)
        return dataclasses.replace(
            self,
            choose=self.choose.of(rows),
            limits=tf.gather(self.limits, rows),
            alpha=tf.gather(self.alpha, rows),
        )

    def done(self, loop: _Loop) -> tf.Tensor:
        """(B,) bool: the sentences that need no further step."""
        return tf.reduce_all(tf.reshape(loop.done, [-1, self.width]), axis=1)

    def keep(self, loop: _Loop, sentences: tf.Tensor, more: int) -> _Loop:
        """The loop of some of the sentences, (b,) int32, with room for ``more`` steps."""
        rows = hypotheses.rows_of(sentences, self.width)

        def kept(part: tf.Tensor) -> tf.Tensor:
            return tf.gather(part, rows)

        return _Loop(
            loop.position,
            kept(loop.done),
            kept(loop.finished),
            kept(loop.log_probabilities),
            kept(loop.lengths),
            kept(loop.tokens),
            self.steps.select_and_reserve(loop.state, sentences, more),
        )

    def shapes(self, state: State) -> _Loop:
        """The shapes that the parts of a loop may take."""
        rows = tf.TensorShape([None])
        return _Loop(
            position=tf.TensorShape([]),
            done=rows,
            finished=rows,
            log_probabilities=rows,
            lengths=rows,
            tokens=tf.TensorShape([None, None]),
            state=hypotheses.invariants(state),
        )

    def result(self, loop: _Loop) -> Hypotheses:
        """What has been found: ``width`` hypotheses a sentence, in the order of their rows."""
        scores = loop.log_probabilities / hypotheses.length_penalty(loop.lengths, self.alpha)

        def by_sentence(values: tf.Tensor) -> tf.Tensor:
            return tf.reshape(values, [-1, self.width])

        tokens = loop.tokens[:, 1:]
        return Hypotheses(
            tokens=tf.reshape(tokens, [-1, self.width, loop.position]),
            lengths=by_sentence(loop.lengths),
            scores=by_sentence(scores),
            log_probabilities=by_sentence(loop.log_probabilities),
            finished=by_sentence(loop.finished),
        )

    def initial(self, state: State) -> _Loop:
        """The loop before the first step."""
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

    def advance(self, loop: _Loop) -> _Loop:
        """One step further."""
        logits, state = self.steps(loop.tokens[:, -1], loop.position, loop.state)
        token, added = self.choose(logits, loop.tokens, loop.position)
        # Where no token is possible at all, what there is stays as it is.
        done = loop.done | (added <= INVALID_BELOW)
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
