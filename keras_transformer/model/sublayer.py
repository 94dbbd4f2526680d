"""The residual connection and layer normalization around each sub-layer (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout
from keras_transformer.model.kernels.normalization import LayerNormalization


@keras.saving.register_keras_serializable("keras_transformer")
class SublayerConnection(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))), which the literature calls Post-LN.

    Args:
        dropout: Share of the sub-layer's output dropped in training (section 5.4).
        kwargs: Of `keras.layers.Layer`.
    """

    normalizes_output = True
    """Whether a stack needs no normalization after its last layer."""

    def __init__(self, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dropout_rate = dropout
        self.normalization = LayerNormalization(dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, shape: Any) -> None:
        self.normalization.build(shape)
        self.built = True

    def call(
        self, x: tf.Tensor, sublayer: Callable[[tf.Tensor], tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        """Apply a sub-layer.

        Args:
            x: (B, T, D).
            sublayer: A function from (B, T, D) to (B, T, D).
            training: Whether dropout is on.

        Returns:
            (B, T, D).
        """
        x += self.dropout(sublayer(x), training=training)
        return self.normalization(x, training=training)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"dropout": self.dropout_rate}
