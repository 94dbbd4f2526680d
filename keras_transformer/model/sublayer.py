"""Residual connection and layer normalisation around a sub-layer (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout

EPSILON = 1e-6  # added to the variance


@keras.saving.register_keras_serializable("keras_transformer")
class SublayerConnection(keras.layers.Layer):
    """Post-LN: LayerNorm(x + Dropout(Sublayer(x))), the paper.
    Pre-LN: x + Dropout(Sublayer(LayerNorm(x))), easier to train when deep.

    Args:
        norm: "post" or "pre".
        dropout: Share of the sub-layer's output dropped in training (section 5.4).
    """

    def __init__(self, norm: str = "post", dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.norm = norm
        self.dropout_rate = dropout
        self.normalization = layer_normalization(self.dtype_policy)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, shape: Any) -> None:
        """Build the normalisation for width shape[-1]."""
        self.normalization.build(shape)
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        sublayer: Callable[[tf.Tensor], tf.Tensor],
        training: bool = False,
    ) -> tf.Tensor:
        """Apply ``sublayer``, a function on (B, T, D), around ``x`` (B, T, D)."""
        if self.norm == "pre":
            normalized = self.normalization(x, training=training)
            return x + self.dropout(sublayer(normalized), training=training)
        x += self.dropout(sublayer(x), training=training)
        return self.normalization(x, training=training)

    def compute_output_shape(self, shape: Any) -> Any:
        """The input's shape."""
        return shape

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"norm": self.norm, "dropout": self.dropout_rate}


@keras.saving.register_keras_serializable("keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras' layer, with a gradient worked out by hand in training.

    The same function of (B, T, D) over its last axis, moments in float32. TensorFlow would
    derive the gradient operation by operation and go over the features twice as often.
    """

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """(B, T, D) to the same shape."""
        if not training:
            return super().call(x)
        gamma, beta = (tf.convert_to_tensor(part) for part in (self.gamma, self.beta))
        rows = tf.cast(tf.reshape(x, [-1, x.shape[-1]]), tf.float32)
        rows = _normalized(rows, gamma, beta, self.epsilon)
        return tf.cast(tf.reshape(rows, tf.shape(x)), self.compute_dtype)


def _normalized(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Rows (N, D) float32 of mean 0 and variance 1, times gamma (D,) plus beta (D,)."""

    def row_mean(y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(y, axis=1, keepdims=True)

    @tf.custom_gradient
    def compute(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        centred = x - row_mean(x)
        inverse = tf.math.rsqrt(row_mean(tf.square(centred)) + epsilon)  # (N, 1)
        unit = centred * inverse

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            along, scaled = upstream * unit, upstream * gamma
            # Neither a shift nor a stretch of a row changes ``unit``: both parts go.
            shift, stretch = row_mean(scaled), row_mean(along * gamma)
            inner = (scaled - shift - unit * stretch) * inverse
            return inner, tf.reduce_sum(along, axis=0), tf.reduce_sum(upstream, axis=0)

        return unit * gamma + beta, gradient

    return compute(x, gamma, beta)


def layer_normalization(dtype: Any) -> LayerNormalization:
    """The normalisation used throughout; its moments are computed in float32."""
    return LayerNormalization(epsilon=EPSILON, dtype=dtype)
