"""Key-value caches of incremental decoding, and masks of the slots of each hypothesis.

A self-attention cache has C * W slots for each sentence; each step fills the next W of them, one
for each hypothesis. When the search reorders hypotheses, no key or value moves: a mask marks the
slots of each hypothesis and its ancestors. Reserving room for further steps drops the slots that
no live hypothesis attends to. Live hypotheses soon share all but their last tokens, so that about
one slot per position stays instead of W.

Shapes: see `model`; C capacity of a cache in steps, P number of steps kept.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.model.masks import MASK_VALUE


class KeysValues(NamedTuple):
    """Keys and values of one attention layer."""

    keys: tf.Tensor
    values: tf.Tensor


class DecoderState(NamedTuple):
    """State of the decoder between two steps."""

    visible: tf.Tensor
    """(B, W, C * W) float32, additive mask: 0 at slots that a hypothesis attends to."""
    positions: tf.Tensor
    """(B, C * W) int32, target position of each slot."""
    filled: tf.Tensor
    """() int32, number of steps in the cache; the next step fills the W slots after them."""
    self_attention: list[KeysValues]
    """For each layer, keys (B * H * C, W * K) and values (B * H * C, W * K')."""
    cross_attention: list[KeysValues]
    """For each layer, transposed keys (B, H, K, S) and values (B, H, S, K') of the source."""
    source_bias: tf.Tensor
    """(B, H, W, S) float32, additive mask: 0 at real source tokens."""


def additive_mask(mask: tf.Tensor) -> tf.Tensor:
    """Convert a boolean mask to an additive one, computed once for many steps.

    Args:
        mask: Boolean, any shape.

    Returns:
        float32 of the same shape: 0 where attending is allowed, ``MASK_VALUE`` elsewhere.
    """
    return tf.where(mask, 0.0, MASK_VALUE)


def empty_rows(width: int, dtype: str) -> tf.Tensor:
    """Return a cache (1, ``width``) without slots.

    `select_and_reserve` copies its single row into new slots. Steps write into a cache in place,
    so each run of a graph needs a new tensor: TensorFlow never folds `Empty` into a constant.
    """
    return tf.raw_ops.Empty(shape=[1, width], dtype=dtype, init=True)


def begin_step(state: DecoderState, beam: int) -> tuple[DecoderState, tf.Tensor]:
    """Make the slot that each hypothesis is about to fill visible to it.

    Args:
        state: A state with room for one more step.
        beam: W.

    Returns:
        The state with this step counted as filled, and the index (C * W,) int32 of each slot
        relative to the W of this step: negative at earlier slots.
    """
    slots = tf.shape(state.visible)[2]
    index = tf.range(slots) - state.filled * beam  # 0 to W - 1 at the slots of this step
    own = additive_mask(index == tf.range(beam)[:, None])  # (W, C * W)
    visible = tf.maximum(state.visible, own)  # (B, W, C * W)
    return state._replace(visible=visible, filled=state.filled + 1), index


def reorder(state: DecoderState, parents: tf.Tensor) -> DecoderState:
    """Return the state in which hypothesis w of sentence b continues hypothesis parents[b, w].

    Args:
        state: The state after any step.
        parents: (B, W) int64, each from 0 to W - 1.
    """
    return state._replace(visible=tf.gather(state.visible, parents, batch_dims=1))


def select_and_reserve(
    state: DecoderState,
    sentences: tf.Tensor | list[int],
    more: tf.Tensor | int,
    heads: int,
    beam: int,
) -> DecoderState:
    """Select sentences and make room for further steps.

    Args:
        state: The state before the first step or after any step.
        sentences: (b,) int32, the sentences to keep, in their new order.
        more: Number of further steps to make room for.
        heads: H.
        beam: W.

    Returns:
        The state of the b sentences; slots that no hypothesis attends to are gone.
    """
    sentences = tf.convert_to_tensor(sentences, tf.int32)
    slots = tf.shape(state.visible)[2]
    visible = tf.gather(state.visible, sentences)  # (b, W, C * W)
    kept = _visible_slots(visible, state.filled, beam)  # (b, P * W)
    rows = sentences[:, None] * heads + tf.range(heads)  # (b, H)
    rows = tf.reshape(rows, [-1, 1]) * slots + tf.repeat(kept, heads, axis=0)  # (b * H, P * W)
    # New slots copy row 0: no hypothesis attends to them before they are filled.
    rows = tf.pad(rows, [[0, 0], [0, more * beam]])  # (b * H, C' * W), where C' is P + more

    def moved(cache: tf.Tensor) -> tf.Tensor:
        width = cache.shape[1]
        by_slot = tf.gather(tf.reshape(cache, [-1, width // beam]), rows)  # (b * H, C' * W, K)
        return tf.reshape(by_slot, [-1, width])  # (b * H * C', W * K)

    visible = tf.gather(visible, kept, axis=2, batch_dims=1)  # (b, W, P * W)
    positions = tf.gather(tf.gather(state.positions, sentences), kept, batch_dims=1)
    return DecoderState(
        tf.pad(visible, [[0, 0], [0, 0], [0, more * beam]], constant_values=MASK_VALUE),
        tf.pad(positions, [[0, 0], [0, more * beam]]),
        tf.shape(kept)[1] // beam,
        tf.nest.map_structure(moved, state.self_attention),
        tf.nest.map_structure(lambda cache: tf.gather(cache, sentences), state.cross_attention),
        tf.gather(state.source_bias, sentences),
    )


def _visible_slots(visible: tf.Tensor, filled: tf.Tensor, beam: int) -> tf.Tensor:
    """Return the slots that a hypothesis attends to, (b, P * W) int32, in their order.

    Every sentence keeps the same number of slots: invisible ones fill up where fewer are visible.
    """
    if beam == 1:
        return tf.tile(tf.range(filled)[None], [tf.shape(visible)[0], 1])
    seen = tf.cast(tf.reduce_max(visible, axis=1) == 0.0, tf.int32)  # (b, C * W)
    most = tf.reduce_max(tf.reduce_sum(seen, axis=1))
    steps = (most + beam - 1) // beam  # P
    steps = tf.clip_by_value(steps, 0, filled)  # the maximum over no sentences is not 0
    # top_k is stable: equal values stay in their order.
    return tf.math.top_k(seen, steps * beam).indices
