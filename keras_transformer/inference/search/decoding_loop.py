"""How a search goes on: in rounds, between which finished sentences leave the batch.

A sentence that is done costs as much in a step as one that is not, and a cache with room for
the longest output costs as much in its first step as in its last. So the loop of steps stops
now and then: what was found is put down, the sentences that are done are left out of all
tensors, and the caches get room for the next steps and lose what no hypothesis sees any more.

Shapes: B sentences, b those still searched, N hypotheses returned, L tokens so far.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import tensorflow as tf

from keras_transformer.data.tokenizer import PAD
from keras_transformer.inference.search.hypotheses import NEG_INF, Hypotheses, State, Steps

STEPS = 16
"""The most steps of a round, for which the caches get room."""
WAITING = 0.25
"""Share of the sentences that may be done before the rest goes on without them."""


class Loop(Protocol):
    """What a search carries from step to step: a named tuple."""

    position: tf.Tensor
    """() int32, tokens produced so far."""
    state: State
    """What the next step gets."""

    def _replace(self, **parts: Any) -> Self: ...


class Search(Protocol):
    """One kind of search, over the sentences that it has been given."""

    @property
    def steps(self) -> Steps:
        """The network."""

    def initial(self, state: State) -> Any:
        """The loop before the first step."""

    def shapes(self, state: State) -> Any:
        """The shapes that the parts of a loop may take."""

    def done(self, loop: Any) -> tf.Tensor:
        """(b,) bool: the sentences that need no further step."""

    def advance(self, loop: Any) -> Any:
        """One step further."""

    def result(self, loop: Any) -> Hypotheses:
        """What has been found so far."""

    def keep(self, loop: Any, sentences: tf.Tensor, more: int) -> Any:
        """The loop of some of the sentences, (b,) int32, with room for ``more`` steps."""

    def of(self, sentences: tf.Tensor) -> Search:
        """The same search for some of the sentences, (b,) int32."""


def run(search: Search, state: State, batch: tf.Tensor, n_best: int) -> Hypotheses:
    """Search from a state to the end.

    Args:
        search: Of all sentences.
        state: What the first step gets.
        batch: () int32, B.
        n_best: N.

    Returns:
        The hypotheses of each sentence, in order.
    """

    def go_on(
        sentences: tf.Tensor, loop: Loop, found: Hypotheses
    ) -> tuple[tf.Tensor, Loop, Hypotheses]:
        part = search.of(sentences)
        room = loop.position + STEPS

        def worthwhile(loop: Loop) -> tf.Tensor:
            done = part.done(loop)
            count = tf.reduce_sum(tf.cast(done, tf.float32))
            most = WAITING * tf.cast(tf.size(done), tf.float32)
            return (loop.position < room) & (count <= most)

        (loop,) = tf.while_loop(
            worthwhile,
            lambda loop: (part.advance(loop),),
            (loop,),
            shape_invariants=(search.shapes(loop.state),),
        )
        found = _placed(found, sentences, part.result(loop))
        left = tf.cast(tf.where(~part.done(loop))[:, 0], tf.int32)
        loop = search.keep(loop, left, STEPS)
        return tf.gather(sentences, left), loop, found

    first = search.keep(search.initial(state), tf.range(batch), STEPS)
    nothing = _nothing(batch, n_best)
    *_, found = tf.while_loop(
        lambda sentences, *_: tf.size(sentences) > 0,
        go_on,
        (tf.range(batch), first, nothing),
        shape_invariants=(tf.TensorShape([None]), search.shapes(state), _open(nothing)),
    )
    return found


def _nothing(batch: tf.Tensor, n_best: int) -> Hypotheses:
    """Hypotheses of nothing, without any token."""
    never = tf.fill([batch, n_best], NEG_INF)
    none = tf.zeros([batch, n_best], tf.int32)
    return Hypotheses(
        tokens=tf.zeros([batch, n_best, 0], tf.int32),
        lengths=none,
        scores=never,
        log_probabilities=never,
        finished=tf.zeros([batch, n_best], tf.bool),
    )


def _open(found: Hypotheses) -> Hypotheses:
    """The shapes of ``found`` while sentences and tokens are open."""
    n_best = found.lengths.shape[1]
    each = tf.TensorShape([None, n_best])
    return Hypotheses(tf.TensorShape([None, n_best, None]), each, each, each, each)


def _placed(found: Hypotheses, sentences: tf.Tensor, own: Hypotheses) -> Hypotheses:
    """``found`` with what ``own`` has for some of its sentences."""
    more = tf.shape(own.tokens)[2] - tf.shape(found.tokens)[2]
    tokens = tf.pad(found.tokens, [[0, 0], [0, 0], [0, more]], constant_values=PAD)
    batch = tf.shape(found.lengths)[0]
    origin = tf.tensor_scatter_nd_update(
        tf.range(batch), sentences[:, None], batch + tf.range(tf.size(sentences))
    )
    return Hypotheses(
        *(
            tf.gather(tf.concat([old, new], axis=0), origin)
            for old, new in zip(found._replace(tokens=tokens), own, strict=True)
        )
    )
