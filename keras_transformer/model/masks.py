"""Attention masks, all made here: boolean, True where a position may be attended to.

Masks act on keys only. They are made from the input of each call, so no length is fixed.
"""

from __future__ import annotations

import keras
import tensorflow as tf

PAD = 0  # the id of padding, on both sides

MASK_VALUE = tf.float32.min / 2
"""Added to a score, keeps attention away: half of the lowest number, so that the sum cannot
overflow to -inf."""


def padding_mask(ids: tf.Tensor) -> tf.Tensor:
    """Which keys are real tokens.

    Args:
        ids: (B, S) token ids, padded with ``PAD``.

    Returns:
        (B, 1, 1, S) boolean, True at real tokens; broadcasts over heads and queries.
    """
    return tf.not_equal(ids, PAD)[:, None, None, :]


def look_ahead_mask(
    queries: tf.Tensor | int, keys: tf.Tensor | int, first: tf.Tensor | int = 0
) -> tf.Tensor:
    """Which positions a target position may see: itself and those before it.

    Args:
        queries: T, the number of positions that look.
        keys: S, the number of positions that are looked at.
        first: Position of the first query; the first key is at 0.

    Returns:
        (1, 1, T, S) boolean, True where key <= query (section 3.2.3).
    """
    looking = first + tf.range(queries)
    return (looking[:, None] >= tf.range(keys)[None, :])[None, None, :, :]


def additive(mask: tf.Tensor) -> tf.Tensor:
    """A mask as what is added to scores: made once, it serves every step of a search.

    Args:
        mask: Boolean, any shape.

    Returns:
        float32 of the same shape: 0 where attending is allowed, elsewhere ``MASK_VALUE``.
    """
    return tf.where(mask, 0.0, MASK_VALUE)


@keras.saving.register_keras_serializable("keras_transformer")
class PaddingMask(keras.layers.Layer):
    """`padding_mask` as a layer, for the functional model."""

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """(B, S) ids to (B, 1, 1, S) boolean."""
        return padding_mask(ids)
