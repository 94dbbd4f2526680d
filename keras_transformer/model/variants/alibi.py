"""Attention with linear biases, ALiBi (Press et al. 2022)."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention


@keras.saving.register_keras_serializable("keras_transformer")
class AlibiAttention(MultiHeadAttention):
    """Self-attention with a penalty for the distance between query and key.

    The arguments are as for `MultiHeadAttention`.
    """

    def score_bias(self, distance: tf.Tensor) -> tf.Tensor:
        return alibi_bias(self.heads, distance)


def alibi_slopes(heads: int) -> list[float]:
    """Return the slope of each head: 2^(-8/H), its square, … (section 3).

    If H is not a power of two, P is the largest one below it: the slopes of P heads come first,
    then every other slope of 2 P heads, as in the authors' code.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    extra = [2.0 ** (-4.0 * (i + 1) / power) for i in range(0, 2 * (heads - power), 2)]
    return slopes + extra


def alibi_bias(heads: int, distance: tf.Tensor) -> tf.Tensor:
    """Return -slope * |distance| for each head.

    The penalty is the same in both directions; a decoder masks the keys after a query.

    Args:
        heads: H.
        distance: (..., T, S) int32, query position minus key position.

    Returns:
        (..., H, T, S) float32.
    """
    slopes = tf.constant(alibi_slopes(heads), tf.float32)
    distance = tf.cast(tf.abs(distance), tf.float32)[..., None, :, :]  # (..., 1, T, S)
    return -slopes[:, None, None] * distance  # (..., H, T, S)
