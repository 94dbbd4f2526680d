"""Layer normalization with a gradient derived by hand.

Why not Keras' layer: TensorFlow differentiates its operations one by one, and each of them reads
and writes all features once more: 16 ms for (64, 64, 512) instead of 13. A `base` step has 30 such
layers.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

EPSILON = 1e-6  # added to the variance


@keras.saving.register_keras_serializable("keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """LayerNorm(x) = (x - mean) / sqrt(variance + epsilon) * gamma + beta (Ba et al. 2016).

    Mean and variance are over the last axis, in float32 in any precision. Inference uses Keras'
    own layer, training the same function with the gradient below.

    Args:
        epsilon: Added to the variance.
        kwargs: Arguments of `keras.layers.LayerNormalization`, or of `keras.layers.Layer`.
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalize each position.

        Args:
            x: (..., D).
            training: Whether a gradient will be needed.

        Returns:
            (..., D).
        """
        if not training:
            return super().call(x)
        gamma, beta = (tf.convert_to_tensor(part) for part in (self.gamma, self.beta))
        rows = tf.cast(tf.reshape(x, [-1, x.shape[-1]]), tf.float32)  # (N, D)
        rows = _normalize(rows, gamma, beta, self.epsilon)
        return tf.cast(tf.reshape(rows, tf.shape(x)), self.compute_dtype)


def _normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Normalize rows (N, D) float32, with gamma and beta (D,)."""

    def row_mean(y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(y, axis=1, keepdims=True)  # (N, 1)

    @tf.custom_gradient
    def compute(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        centred = x - row_mean(x)
        inverse = tf.math.rsqrt(row_mean(tf.square(centred)) + epsilon)  # (N, 1)
        unit = centred * inverse

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            along, scaled = upstream * unit, upstream * gamma
            # Shifting or scaling a row does not change ``unit``, so the gradient has no component
            # in either direction.
            shift, scale = row_mean(scaled), row_mean(along * gamma)
            inner = (scaled - shift - unit * scale) * inverse
            return inner, tf.reduce_sum(along, axis=0), tf.reduce_sum(upstream, axis=0)

        return unit * gamma + beta, gradient

    return compute(x, gamma, beta)
