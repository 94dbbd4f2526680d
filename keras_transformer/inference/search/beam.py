"""Beam search as in the paper (section 6.1), inside a graph.

Each step extends the W live hypotheses of a sentence and keeps the 2 W best extensions.
Those that end with END compete for the N places of the finished set and are never extended
again; the W best of the others stay alive (at most W of the 2 W end, one for each parent).
A sentence is done when no live hypothesis can enter its best finished ones any more, or at its
limit; from then on it does not change, whatever the rest of the batch does.

Shapes: B batch, W beam width, R rows (B * W), N hypotheses returned, K candidates of a row,
V vocabulary, T tokens so far, START counted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config import LengthPenalty
from keras_transformer.inference.search.constraints import BatchConstraints
from keras_transformer.inference.search.hypotheses import INVALID_BELOW, NEG_INF, Hypotheses
from keras_transformer.inference.search.scoring import length_penalty
from keras_transformer.inference.search.step_function import (
    State,
    Steps,
    rows_of,
    state_shape_invariants,
)
from keras_transformer.special_tokens import PAD


class _Live(NamedTuple):
    """Hypotheses that may still be extended, best first."""

    log_probabilities: tf.Tensor  # (B, W) float32
    tokens: tf.Tensor  # (B, W, T) int64, START first
    lengths: tf.Tensor  # (B,) int64, START not counted; one length for each sentence


class _Finished(NamedTuple):
    """Hypotheses that ended with END, best score first."""

    scores: tf.Tensor  # (B, N) float32, NEG_INF in empty places
    log_probabilities: tf.Tensor  # (B, N) float32
    tokens: tf.Tensor  # (B, N, T) int64, START first, PAD after END
    lengths: tf.Tensor  # (B, N) int64, END counted


class _Extensions(NamedTuple):
    """The 2 W best ways to extend a sentence's live hypotheses, best first."""

    log_probabilities: tf.Tensor  # (B, 2W) float32
    parents: tf.Tensor  # (B, 2W) int64 in [0, W)
    tokens: tf.Tensor  # (B, 2W) int64


class _Loop(NamedTuple):
    position: tf.Tensor  # () int32, tokens produced so far
    done: tf.Tensor  # (B,) bool
    live: _Live
    finished: _Finished
    state: State


@dataclass(frozen=True)
class BeamSearch:
    """A beam search; see ``strategies.beam_search`` for the arguments."""

    steps: Steps
    limits: tf.Tensor  # (B,) int64
    beam: int  # W
    alpha: tf.Tensor  # (B,) float32
    form: LengthPenalty
    size: int  # N, places of the finished set
    required: tf.Tensor  # () int32, 1 to N
    start: int
    end: int
    constraints: BatchConstraints

    def select(self, sentences: tf.Tensor) -> BeamSearch:
        return dataclasses.replace(
            self,
            limits=tf.gather(self.limits, sentences),
            alpha=tf.gather(self.alpha, sentences),
            constraints=self.constraints.select(rows_of(sentences, self.beam)),
        )

    def done(self, loop: _Loop) -> tf.Tensor:
        return loop.done

    def select_and_reserve(self, loop: _Loop, sentences: tf.Tensor, more: int) -> _Loop:
        def select(part: Any) -> Any:
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, sentences), part)

        return _Loop(
            loop.position,
            select(loop.done),
            select(loop.live),
            select(loop.finished),
            self.steps.select_and_reserve(loop.state, sentences, more),
        )

    def shape_invariants(self, state: State) -> _Loop:
        return _Loop(
            position=tf.TensorShape([]),
            done=tf.TensorShape([None]),
            live=_Live(
                tf.TensorShape([None, self.beam]),
                tf.TensorShape([None, self.beam, None]),
                tf.TensorShape([None]),
            ),
            finished=_Finished(
                tf.TensorShape([None, self.size]),
                tf.TensorShape([None, self.size]),
                tf.TensorShape([None, self.size, None]),
                tf.TensorShape([None, self.size]),
            ),
            state=state_shape_invariants(state),
        )

    def initial(self, state: State) -> _Loop:
        batch = tf.shape(self.limits)[0]
        # All rows begin alike: only the first is valid, or all would follow the same path.
        first = tf.constant([[0.0] + [NEG_INF] * (self.beam - 1)])
        empty = tf.fill([batch, self.size], NEG_INF)
        start = tf.constant(self.start, tf.int64)
        return _Loop(
            position=tf.constant(0),
            done=self.limits <= 0,
            live=_Live(
                tf.repeat(first, batch, axis=0),
                tf.fill([batch, self.beam, 1], start),
                tf.zeros([batch], tf.int64),
            ),
            finished=_Finished(
                empty,
                empty,
                tf.fill([batch, self.size, 1], start),
                tf.zeros([batch, self.size], tf.int64),
            ),
            state=state,
        )

    def advance(self, loop: _Loop) -> _Loop:
        last = tf.reshape(loop.live.tokens[:, :, -1], [-1])  # (R,)
        logits, state = self.steps(last, loop.position, loop.state)
        extensions = self._extend(loop, logits)
        # If no token is possible at all, the hypotheses stay as they are.
        done = loop.done | (extensions.log_probabilities[:, 0] <= INVALID_BELOW)
        finished = self._finish(loop, extensions, done)
        live, parents = self._survive(loop.live, extensions, done)
        return _Loop(
            position=loop.position + 1,
            done=done | (live.lengths >= self.limits) | ~self._can_improve(live, finished),
            live=live,
            finished=finished,
            state=self.steps.reorder(state, parents),
        )

    def _extend(self, loop: _Loop, logits: tf.Tensor) -> _Extensions:
        """Return the 2 W best extensions of each sentence's live hypotheses."""
        tokens = tf.reshape(loop.live.tokens, [-1, loop.position + 1])  # (R, T)
        # No hypothesis can give more than 2 W of the 2 W best.
        candidates = self.constraints.candidates(logits, 2 * self.beam, tokens, loop.position)
        width = tf.shape(candidates.tokens)[-1]  # K
        added = tf.reshape(candidates.log_probabilities, [-1, self.beam, width])  # (B, W, K)
        total = tf.maximum(loop.live.log_probabilities[:, :, None] + added, NEG_INF)
        flat = tf.reshape(total, [-1, self.beam * width])  # (B, W * K)
        log_probabilities, indices = tf.math.top_k(flat, 2 * self.beam)
        tokens = tf.reshape(candidates.tokens, [-1, self.beam * width])  # (B, W * K)
        return _Extensions(
            log_probabilities,
            tf.cast(indices, tf.int64) // tf.cast(width, tf.int64),
            tf.gather(tokens, indices, batch_dims=1),
        )

    def _finish(self, loop: _Loop, extensions: _Extensions, done: tf.Tensor) -> _Finished:
        """Return the N best of the finished hypotheses and the extensions that end with END."""
        old = loop.finished
        new = (extensions.tokens == self.end) & (extensions.log_probabilities > INVALID_BELOW)
        new &= ~done[:, None]
        length = tf.cast(loop.position + 1, tf.int64)
        log_probabilities = tf.where(new, extensions.log_probabilities, NEG_INF)
        penalty = length_penalty(length, self.alpha, self.form)  # (B,)
        scores = tf.where(new, log_probabilities / penalty[:, None], NEG_INF)
        scores, chosen = tf.math.top_k(tf.concat([old.scores, scores], 1), self.size)
        log_probabilities = tf.gather(
            tf.concat([old.log_probabilities, log_probabilities], 1), chosen, batch_dims=1
        )
        lengths = tf.concat([old.lengths, tf.where(new, length, 0)], 1)  # (B, N + 2W)
        # A new hypothesis is its parent's tokens and END, so the 2 W need not be built.
        origin = tf.concat(
            [
                tf.zeros_like(old.lengths) + tf.range(self.size, dtype=tf.int64),
                self.size + extensions.parents,
            ],
            axis=1,
        )
        tokens = tf.concat([old.tokens, loop.live.tokens], 1)  # (B, N + W, T)
        tokens = tf.gather(tokens, tf.gather(origin, chosen, batch_dims=1), batch_dims=1)
        is_new = tf.cast(chosen, tf.int64) >= self.size
        last = tf.where(is_new, tf.constant(self.end, tf.int64), PAD)
        return _Finished(
            scores,
            log_probabilities,
            tf.concat([tokens, last[:, :, None]], 2),  # (B, N, T + 1)
            tf.gather(lengths, chosen, batch_dims=1),
        )

    def _survive(
        self, old: _Live, extensions: _Extensions, done: tf.Tensor
    ) -> tuple[_Live, tf.Tensor]:
        """Return the W best extensions without END, and the parent of each, (B, W)."""
        open_ended = tf.where(extensions.tokens == self.end, NEG_INF, extensions.log_probabilities)
        log_probabilities, chosen = tf.math.top_k(open_ended, self.beam)
        tokens = tf.gather(extensions.tokens, chosen, batch_dims=1)
        parents = tf.gather(extensions.parents, chosen, batch_dims=1)
        frozen = done[:, None]
        parents = tf.where(frozen, tf.range(self.beam, dtype=tf.int64), parents)
        tokens = tf.where(frozen, tf.constant(PAD, tf.int64), tokens)
        parent_tokens = tf.gather(old.tokens, parents, batch_dims=1)  # (B, W, T)
        live = _Live(
            tf.where(frozen, old.log_probabilities, log_probabilities),
            tf.concat([parent_tokens, tokens[:, :, None]], 2),  # (B, W, T + 1)
            old.lengths + tf.cast(~done, tf.int64),
        )
        return live, parents

    def _can_improve(self, live: _Live, finished: _Finished) -> tf.Tensor:
        """Return whether a live hypothesis may still enter the required best, (B,) bool.

        A log-probability only falls, and the penalty is greatest at the limit: their quotient
        bounds every score that a live hypothesis can reach. An empty place has score NEG_INF.
        """
        best = tf.reduce_max(live.log_probabilities, axis=1)
        bound = best / length_penalty(self.limits, self.alpha, self.form)
        return (best > INVALID_BELOW) & (bound > finished.scores[:, self.required - 1])

    def result(self, loop: _Loop) -> Hypotheses:
        """Return the finished hypotheses, and live ones in places that are still empty.

        If a sentence is done before its limit, its live hypotheses are unfinished fragments; they
        are not returned once the required hypotheses have finished.
        """
        live, finished = loop.live, loop.finished
        ended = finished.scores > INVALID_BELOW  # (B, N)
        count = tf.reduce_sum(tf.cast(ended, tf.int64), axis=1, keepdims=True)  # (B, 1)
        lengths = live.lengths[:, None]  # (B, 1)
        whole = (count < tf.cast(self.required, tf.int64)) | (lengths >= self.limits[:, None])
        real = whole & (live.log_probabilities > INVALID_BELOW)  # (B, W)
        lengths = tf.where(real, lengths, 0)
        log_probabilities = tf.where(real, live.log_probabilities, NEG_INF)
        scores = log_probabilities / length_penalty(lengths, self.alpha[:, None], self.form)
        scores = tf.where(real, scores, NEG_INF)
        tokens = tf.where(real[:, :, None], live.tokens, PAD)
        # Both lists are sorted: place i goes to live hypothesis i - (number finished).
        places = tf.range(self.size, dtype=tf.int64)[None]
        origin = tf.where(places < count, places, self.size + places - count)
        spare = max(self.size - self.beam, 0)  # columns without a live hypothesis

        def merge(first: tf.Tensor, second: tf.Tensor, empty: float | int) -> tf.Tensor:
            if spare:
                padding = [[0, 0], [0, spare], [0, 0]][: second.shape.rank]
                second = tf.pad(second, padding, constant_values=empty)
            return tf.gather(tf.concat([first, second], 1), origin, batch_dims=1)

        return Hypotheses(
            tokens=merge(finished.tokens, tokens, PAD)[:, :, 1:],
            lengths=merge(finished.lengths, lengths, 0),
            scores=merge(finished.scores, scores, NEG_INF),
            log_probabilities=merge(finished.log_probabilities, log_probabilities, NEG_INF),
            finished=ended,
        )
