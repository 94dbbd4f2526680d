"""Decoding loop that drops finished sentences every 16 steps, or earlier.

A finished sentence costs as much in a step as an unfinished one, and a cache with room for the
longest output costs as much in the first step as in the last. So the loop over steps pauses:
it stores the hypotheses, drops finished sentences from all tensors, and resizes the caches for
the next steps.

Shapes: B sentences, b sentences still decoded, N hypotheses of each, L tokens so far.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import tensorflow as tf

from keras_transformer.inference.search.hypotheses import Hypotheses, empty_hypotheses
from keras_transformer.inference.search.step_function import State, Steps
from keras_transformer.special_tokens import PAD

STEPS = 16
"""Maximum number of steps between two pauses; the caches get room for as many."""
MAX_FINISHED = 0.25
"""Fraction of finished sentences above which the loop pauses early to drop them."""


class Loop(Protocol):
    """Loop variables of a search: a named tuple."""

    position: tf.Tensor
    """() int32, tokens produced so far."""
    state: State
    """State of the step function."""

    def _replace(self, **parts: Any) -> Self: ...


class Search(Protocol):
    """One kind of search over the sentences that it holds."""

    @property
    def steps(self) -> Steps:
        """The step function."""

    def initial(self, state: State) -> Any:
        """Return the loop variables before the first step."""

    def shape_invariants(self, state: State) -> Any:
        """Return the shapes that the loop variables may take."""

    def done(self, loop: Any) -> tf.Tensor:
        """Return (b,) bool: the sentences that need no further step."""

    def advance(self, loop: Any) -> Any:
        """Decode one more position."""

    def result(self, loop: Any) -> Hypotheses:
        """Return the hypotheses so far."""

    def select_and_reserve(self, loop: Any, sentences: tf.Tensor, more: int) -> Any:
        """Select sentences, (b,) int32, in the loop variables; reserve room for more steps."""

    def select(self, sentences: tf.Tensor) -> Search:
        """Return the same search for some of the sentences, (b,) int32."""


def run(search: Search, state: State, batch: tf.Tensor, n_best: int) -> Hypotheses:
    """Decode until every sentence is done.

    Args:
        search: A search over all sentences.
        state: State of the step function before the first step.
        batch: () int32, B.
        n_best: N, hypotheses that ``search.result`` returns for each sentence.

    Returns:
        The hypotheses of all sentences, in order.
    """

    def decode(
        sentences: tf.Tensor, loop: Loop, hypotheses: Hypotheses
    ) -> tuple[tf.Tensor, Loop, Hypotheses]:
        """Decode up to ``STEPS`` positions of ``sentences`` (b,), then drop finished ones."""
        subsearch = search.select(sentences)
        pause = loop.position + STEPS

        def proceed(loop: Loop) -> tf.Tensor:
            done = subsearch.done(loop)
            finished = tf.reduce_sum(tf.cast(done, tf.float32))
            most = MAX_FINISHED * tf.cast(tf.size(done), tf.float32)
            return (loop.position < pause) & (finished <= most)

        (loop,) = tf.while_loop(
            proceed,
            lambda loop: (subsearch.advance(loop),),
            (loop,),
            shape_invariants=(search.shape_invariants(loop.state),),
        )
        hypotheses = _update(hypotheses, sentences, subsearch.result(loop))
        unfinished = tf.cast(tf.where(~subsearch.done(loop))[:, 0], tf.int32)
        loop = search.select_and_reserve(loop, unfinished, STEPS)
        return tf.gather(sentences, unfinished), loop, hypotheses

    first = search.select_and_reserve(search.initial(state), tf.range(batch), STEPS)
    *_, hypotheses = tf.while_loop(
        lambda sentences, *_: tf.size(sentences) > 0,
        decode,
        (tf.range(batch), first, empty_hypotheses(batch, n_best)),
        shape_invariants=(
            tf.TensorShape([None]),
            search.shape_invariants(state),
            _shape_invariants(n_best),
        ),
    )
    return Hypotheses(
        *(tf.cast(part, tf.int32) if part.dtype == tf.int64 else part for part in hypotheses)
    )


def _shape_invariants(n_best: int) -> Hypotheses:
    """Return the shapes of hypotheses with B and L open."""
    each = tf.TensorShape([None, n_best])
    return Hypotheses(tf.TensorShape([None, n_best, None]), each, each, each, each)


def _update(hypotheses: Hypotheses, sentences: tf.Tensor, new: Hypotheses) -> Hypotheses:
    """Replace the hypotheses of some sentences, (b,) int32, by ``new`` ones."""
    batch, n_best, length = tf.unstack(tf.shape(hypotheses.tokens))
    # No pad operation: there is none for int64 on GPUs.
    more = tf.fill([batch, n_best, tf.shape(new.tokens)[2] - length], tf.constant(PAD, tf.int64))
    tokens = tf.concat([hypotheses.tokens, more], 2)
    origin = tf.tensor_scatter_nd_update(
        tf.range(batch), sentences[:, None], batch + tf.range(tf.size(sentences))
    )
    return Hypotheses(
        *(
            tf.gather(tf.concat([old, own], axis=0), origin)
            for old, own in zip(hypotheses._replace(tokens=tokens), new, strict=True)
        )
    )
