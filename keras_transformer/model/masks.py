"""Attention masks: boolean, True where a query may attend to a key (section 3.2.3)."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_transformer.special_tokens import PAD

MASK_VALUE: float = tf.float32.min / 2
"""Score of a masked key: its softmax weight is 0. Half of the lowest float, so that adding a bias
cannot overflow to -inf: the softmax of a fully masked row would be NaN."""


def padding_mask(ids: tf.Tensor) -> tf.Tensor:
    """Return the mask that hides padding.

    Args:
        ids: (B, S) token ids, padded with ``PAD``.

    Returns:
        (B, 1, 1, S) boolean, True at real tokens; broadcasts over heads and queries.
    """
    return tf.not_equal(ids, PAD)[:, None, None, :]


def look_ahead_mask(
    queries: tf.Tensor | int, keys: tf.Tensor | int, first: tf.Tensor | int = 0
) -> tf.Tensor:
    """Return the mask that hides the keys after each query.

    Args:
        queries: T, number of query positions.
        keys: S, number of key positions.
        first: Position of the first query; the first key is at 0.

    Returns:
        (1, 1, T, S) boolean, True where key position <= query position.
    """
    positions = first + tf.range(queries)
    return (positions[:, None] >= tf.range(keys)[None, :])[None, None, :, :]


@keras.saving.register_keras_serializable("keras_transformer")
class PaddingMask(keras.layers.Layer):
    """`padding_mask` as a layer, for functional models."""

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the mask of ids (B, S): (B, 1, 1, S) boolean, True at real tokens."""
        return padding_mask(ids)
