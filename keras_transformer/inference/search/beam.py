"""Beam search as in the paper (section 6.1), inside a graph.

Each step extends the W live hypotheses of a sentence and keeps the 2 W best extensions.
Those that end with END compete for the N places of the finished set, and are never extended
again; the W best of the others live on (at most W of the 2 W end, one for each parent).
A sentence is done when nothing alive can enter its finished set any more, or at its limit;
from then on it is frozen, whatever the rest of the batch does.

Shapes: B batch, W beam width, R rows (B * W), N hypotheses returned, V vocabulary,
T tokens so far, START counted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.data.tokenizer import PAD
from keras_transformer.inference.search import hypotheses
from keras_transformer.inference.search.constraints import BatchConstraints
from keras_transformer.inference.search.hypotheses import (
    INVALID_BELOW,
    NEG_INF,
    Hypotheses,
    State,
    Steps,
)


class _Live(NamedTuple):
    """Hypotheses that may still be extended, best first."""

    log_probabilities: tf.Tensor  # (B, W) float32
    tokens: tf.Tensor  # (B, W, T) int32, START first
    lengths: tf.Tensor  # (B,) int32, START not counted: all of a sentence are equally long


class _Finished(NamedTuple):
    """Hypotheses that ended with END, best score first."""

    scores: tf.Tensor  # (B, N) float32, NEG_INF where the place is still free
    log_probabilities: tf.Tensor  # (B, N) float32
    tokens: tf.Tensor  # (B, N, T) int32, START first, PAD after END
    lengths: tf.Tensor  # (B, N) int32, END counted


class _Extensions(NamedTuple):
    """The 2 W best ways to extend a sentence's live hypotheses, best first."""

    log_probabilities: tf.Tensor  # (B, 2W) float32
    parents: tf.Tensor  # (B, 2W) int32 in [0, W)
    tokens: tf.Tensor  # (B, 2W) int32


class _Loop(NamedTuple):
    position: tf.Tensor  # () int32, tokens produced so far
    done: tf.Tensor  # (B,) bool
    live: _Live
    finished: _Finished
    state: State


@dataclass(frozen=True)
class Beam:
    """One beam search; see ``search.beam_search`` for the arguments."""

    steps: Steps
    limits: tf.Tensor
    beam: int
    alpha: tf.Tensor  # (B,) float32
    n_best: int
    wanted: tf.Tensor  # () int32, 1 to n_best: those of the best that must be certain
    start: int
    end: int
    constraints: BatchConstraints

    def of(self, sentences: tf.Tensor) -> Beam:
        """The same search for some of the sentences, (b,) int32."""
        return dataclasses.replace(
            self,
            limits=tf.gather(self.limits, sentences),
            alpha=tf.gather(self.alpha, sentences),
            constraints=self.constraints.of(hypotheses.rows_of(sentences, self.beam)),
        )

    def done(self, loop: _Loop) -> tf.Tensor:
        """(B,) bool: the sentences that need no further step."""
        return loop.done

    def keep(self, loop: _Loop, sentences: tf.Tensor, more: int) -> _Loop:
        """The loop of some of the sentences, (b,) int32, with room for ``more`` steps."""

        def kept(part: Any) -> Any:
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, sentences), part)

        return _Loop(
            loop.position,
            kept(loop.done),
            kept(loop.live),
            kept(loop.finished),
            self.steps.select_and_reserve(loop.state, sentences, more),
        )

    def shapes(self, state: State) -> _Loop:
        """The shapes that the parts of a loop may take."""
        return _Loop(
            position=tf.TensorShape([]),
            done=tf.TensorShape([None]),
            live=_Live(
                tf.TensorShape([None, self.beam]),
                tf.TensorShape([None, self.beam, None]),
                tf.TensorShape([None]),
            ),
            finished=_Finished(
                tf.TensorShape([None, self.n_best]),
                tf.TensorShape([None, self.n_best]),
                tf.TensorShape([None, self.n_best, None]),
                tf.TensorShape([None, self.n_best]),
            ),
            state=hypotheses.invariants(state),
        )

    def initial(self, state: State) -> _Loop:
        """The loop before the first step."""
        batch = tf.shape(self.limits)[0]
        # All rows begin alike: only the first counts, or all would follow the same path.
        alone = tf.constant([[0.0] + [NEG_INF] * (self.beam - 1)])
        free = tf.fill([batch, self.n_best], NEG_INF)
        return _Loop(
            position=tf.constant(0),
            done=self.limits <= 0,
            live=_Live(
                tf.repeat(alone, batch, axis=0),
                tf.fill([batch, self.beam, 1], self.start),
                tf.zeros([batch], tf.int32),
            ),
            finished=_Finished(
                free,
                free,
                tf.fill([batch, self.n_best, 1], self.start),
                tf.zeros([batch, self.n_best], tf.int32),
            ),
            state=state,
        )

    def advance(self, loop: _Loop) -> _Loop:
        """One step further."""
        last = tf.reshape(loop.live.tokens[:, :, -1], [-1])  # (R,)
        logits, state = self.steps(last, loop.position, loop.state)
        extensions = self._extend(loop, logits)
        # Where no token is possible at all, what there is stays as it is.
        done = loop.done | (extensions.log_probabilities[:, 0] <= INVALID_BELOW)
        finished = self._finish(loop, extensions, done)
        live, parents = self._keep_alive(loop.live, extensions, done)
        return _Loop(
            position=loop.position + 1,
            done=done | (live.lengths >= self.limits) | ~self._can_improve(live, finished),
            live=live,
            finished=finished,
            state=self.steps.reorder(state, parents),
        )

    def _extend(self, loop: _Loop, logits: tf.Tensor) -> _Extensions:
        """The 2 W best next tokens over a sentence's live hypotheses."""
        texts = tf.reshape(loop.live.tokens, [-1, loop.position + 1])  # (R, T)
        # No hypothesis can give more than 2 W of the 2 W best.
        found = self.constraints.candidates(logits, 2 * self.beam, texts, loop.position)
        width = tf.shape(found.tokens)[-1]
        added = tf.reshape(found.log_probabilities, [-1, self.beam, width])
        total = tf.maximum(loop.live.log_probabilities[:, :, None] + added, NEG_INF)
        flat = tf.reshape(total, [-1, self.beam * width])  # (B, W * K)
        log_probabilities, indices = tf.math.top_k(flat, 2 * self.beam)
        tokens = tf.reshape(found.tokens, [-1, self.beam * width])
        return _Extensions(
            log_probabilities, indices // width, tf.gather(tokens, indices, batch_dims=1)
        )

    def _finish(self, loop: _Loop, extensions: _Extensions, done: tf.Tensor) -> _Finished:
        """The N best of the finished hypotheses and of the extensions by END."""
        old = loop.finished
        new = (extensions.tokens == self.end) & (extensions.log_probabilities > INVALID_BELOW)
        new &= ~done[:, None]
        length = loop.position + 1
        log_probabilities = tf.where(new, extensions.log_probabilities, NEG_INF)
        penalty = hypotheses.length_penalty(length, self.alpha)  # (B,)
        scores = tf.where(new, log_probabilities / penalty[:, None], NEG_INF)
        scores, chosen = tf.math.top_k(tf.concat([old.scores, scores], 1), self.n_best)
        log_probabilities = tf.gather(
            tf.concat([old.log_probabilities, log_probabilities], 1), chosen, batch_dims=1
        )
        lengths = tf.concat([old.lengths, tf.where(new, length, 0)], 1)  # (B, N + 2W)
        # A new one's text is its parent's text and END: no need to lay out all 2 W.
        origin = tf.concat(
            [tf.zeros_like(old.lengths) + tf.range(self.n_best), self.n_best + extensions.parents],
            axis=1,
        )
        texts = tf.concat([old.tokens, loop.live.tokens], 1)  # (B, N + W, T)
        texts = tf.gather(texts, tf.gather(origin, chosen, batch_dims=1), batch_dims=1)
        last = tf.where(chosen >= self.n_best, self.end, PAD)
        return _Finished(
            scores,
            log_probabilities,
            tf.concat([texts, last[:, :, None]], 2),  # (B, N, T + 1)
            tf.gather(lengths, chosen, batch_dims=1),
        )

    def _keep_alive(
        self, old: _Live, extensions: _Extensions, done: tf.Tensor
    ) -> tuple[_Live, tf.Tensor]:
        """The W best extensions that do not end, and the parent of each, (B, W)."""
        open_ended = tf.where(extensions.tokens == self.end, NEG_INF, extensions.log_probabilities)
        log_probabilities, chosen = tf.math.top_k(open_ended, self.beam)
        tokens = tf.gather(extensions.tokens, chosen, batch_dims=1)
        parents = tf.gather(extensions.parents, chosen, batch_dims=1)
        frozen = done[:, None]
        parents = tf.where(frozen, tf.range(self.beam), parents)
        tokens = tf.where(frozen, PAD, tokens)
        texts = tf.gather(old.tokens, parents, batch_dims=1)
        live = _Live(
            tf.where(frozen, old.log_probabilities, log_probabilities),
            tf.concat([texts, tokens[:, :, None]], 2),  # (B, W, T + 1)
            old.lengths + tf.cast(~done, tf.int32),
        )
        return live, parents

    def _can_improve(self, live: _Live, finished: _Finished) -> tf.Tensor:
        """(B,): whether a live hypothesis may still enter the finished set.

        A log-probability only falls, and the penalty is greatest at the limit: their quotient
        bounds every score that a live hypothesis can reach. A free place counts as NEG_INF.
        """
        best = tf.reduce_max(live.log_probabilities, axis=1)
        bound = best / hypotheses.length_penalty(self.limits, self.alpha)
        return (best > INVALID_BELOW) & (bound > finished.scores[:, self.wanted - 1])

    def result(self, loop: _Loop) -> Hypotheses:
        """The finished hypotheses, and live ones in the places that are still free."""
        live, finished = loop.live, loop.finished
        real = live.log_probabilities > INVALID_BELOW
        lengths = tf.where(real, live.lengths[:, None], 0)  # (B, W)
        tokens = tf.where(real[:, :, None], live.tokens, PAD)
        penalty = hypotheses.length_penalty(lengths, self.alpha[:, None])
        scores = tf.where(real, live.log_probabilities / penalty, NEG_INF)
        # Both lists are sorted: place i goes to live hypothesis i - (number finished).
        ended = finished.scores > INVALID_BELOW  # (B, N)
        count = tf.reduce_sum(tf.cast(ended, tf.int32), axis=1, keepdims=True)
        places = tf.range(self.n_best)[None]
        origin = tf.where(places < count, places, self.n_best + places - count)

        def merge(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.concat([first, second], 1), origin, batch_dims=1)

        return Hypotheses(
            tokens=merge(finished.tokens, tokens)[:, :, 1:],
            lengths=merge(finished.lengths, lengths),
            scores=merge(finished.scores, scores),
            log_probabilities=merge(finished.log_probabilities, live.log_probabilities),
            finished=ended,
        )
