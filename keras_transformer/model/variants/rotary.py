"""Rotary position embeddings (Su et al. 2021, "RoFormer")."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.positions import sinusoidal_angles


@keras.saving.register_keras_serializable("keras_transformer")
class RotaryAttention(MultiHeadAttention):
    """Self-attention with queries and keys rotated by their positions.

    The arguments are as for `MultiHeadAttention`; the key width is even.
    """

    def encode_positions(self, x: tf.Tensor, first: tf.Tensor | int = 0) -> tf.Tensor:
        return rotate(x, first)


def rotate(x: tf.Tensor, first: tf.Tensor | int = 0) -> tf.Tensor:
    """Rotate each pair of features by an angle that grows with the position.

    The product of a rotated query and a rotated key depends on their distance only.

    Args:
        x: (B, H, T, K), K even.
        first: Position of the first of the T.

    Returns:
        (B, H, T, K).
    """
    width = x.shape[-1]
    angles = sinusoidal_angles(first + tf.range(tf.shape(x)[2]), width)  # (T, K / 2)
    sin, cos = tf.cast(tf.sin(angles), x.dtype), tf.cast(tf.cos(angles), x.dtype)
    left, right = x[..., : width // 2], x[..., width // 2 :]  # (B, H, T, K / 2)
    rotated = left * cos - right * sin, right * cos + left * sin
    return tf.concat(rotated, axis=-1)  # (B, H, T, K)
