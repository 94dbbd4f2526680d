"""Batch normalization in place of the layer normalization of section 3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.normalization import EPSILON
from keras_transformer.model.sublayer import SublayerConnection

MOMENTUM = 0.9
"""Factor of the old moving statistics in the update of a training step."""


@keras.saving.register_keras_serializable("keras_transformer")
class BatchNormalization(keras.layers.Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta (Ioffe and Szegedy 2015).

    In training, mean and variance of each feature are over all real tokens of the batch, so the
    output of a token depends on other sentences and on later tokens. At inference they are moving
    averages. Why not Keras' layer: it takes only Keras' implicit mask, and computes in 16 bits in
    mixed precision.

    Args:
        epsilon: Added to the variance.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, shape: Any) -> None:
        def weight(name: str, initializer: str, trainable: bool = True) -> Any:
            return self.add_weight(
                name=name,
                shape=(shape[-1],),
                initializer=initializer,
                trainable=trainable,
                autocast=False,
            )

        self.gamma, self.beta = weight("gamma", "ones"), weight("beta", "zeros")
        self.moving_mean = weight("moving_mean", "zeros", trainable=False)
        self.moving_variance = weight("moving_variance", "ones", trainable=False)
        self.built = True

    def call(
        self, x: tf.Tensor, real_tokens: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        """Normalize each feature.

        Args:
            x: (B, T, D); at inference also (R, D).
            real_tokens: Boolean (B, 1, 1, T), True at tokens that enter the statistics; None: all.
            training: Whether to use the statistics of this batch, and to update the moving ones.

        Returns:
            The shape of x.
        """
        gamma, beta, mean, variance = (
            tf.cast(tf.convert_to_tensor(weight), tf.float32)
            for weight in (self.gamma, self.beta, self.moving_mean, self.moving_variance)
        )
        x32 = tf.cast(x, tf.float32)
        if training:
            moving = mean, variance
            mean, variance, count = _statistics(x32, real_tokens)
            rate = tf.where(count > 0, 1 - MOMENTUM, 0.0)
            self.moving_mean.assign(moving[0] + rate * (mean - moving[0]))
            self.moving_variance.assign(moving[1] + rate * (variance - moving[1]))
        output = (x32 - mean) * tf.math.rsqrt(variance + self.epsilon) * gamma + beta
        return tf.cast(output, self.compute_dtype)

    def compute_output_spec(self, x: Any, *_: Any, **__: Any) -> Any:
        return keras.KerasTensor(x.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"epsilon": self.epsilon}


def _statistics(
    x: tf.Tensor, real_tokens: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return mean (D,) and variance (D,) of x (B, T, D) over real tokens, and their number ()."""
    weights = tf.ones_like(x[..., :1])  # (B, T, 1)
    if real_tokens is not None:
        weights *= tf.cast(real_tokens[:, 0, 0, :, None], tf.float32)
    count = tf.reduce_sum(weights)
    divisor = tf.maximum(count, 1.0)
    mean = tf.reduce_sum(weights * x, axis=[0, 1]) / divisor
    variance = tf.reduce_sum(weights * tf.square(x - mean), axis=[0, 1]) / divisor
    return mean, variance, count


@keras.saving.register_keras_serializable("keras_transformer")
class BatchNormalizationConnection(SublayerConnection):
    """BatchNorm(x + Dropout(Sublayer(x))) over the real tokens of a batch.

    Args:
        dropout: Dropout rate of the sub-layer's output.
        epsilon: Added to the variance in the normalization.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def make_normalization(self) -> keras.layers.Layer:
        return BatchNormalization(self.epsilon, dtype=self.dtype_policy)

    def call(
        self,
        x: tf.Tensor,
        sublayer: Callable[[tf.Tensor], tf.Tensor],
        training: bool = False,
        real_tokens: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Apply a sub-layer; see `SublayerConnection.call`."""
        x += self.dropout(sublayer(x), training=training)
        return self.normalization(x, real_tokens, training=training)
