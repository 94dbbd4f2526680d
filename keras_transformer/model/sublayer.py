"""Residual connection and layer normalization around a sub-layer (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout
from keras_transformer.model.kernels.normalization import EPSILON, LayerNormalization


@keras.saving.register_keras_serializable("keras_transformer")
class SublayerConnection(keras.layers.Layer):
    """Post-LN, the paper's order: LayerNorm(x + Dropout(Sublayer(x))).

    Args:
        dropout: Dropout rate of the sub-layer's output (section 5.4).
        epsilon: Added to the variance in the normalization.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    needs_final_normalization = False
    """True if the output is not normalized, so that a stack ends with a normalization."""

    def __init__(self, dropout: float = 0.0, epsilon: float = EPSILON, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dropout_rate = dropout
        self.epsilon = epsilon
        self.normalization = self.make_normalization()
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def make_normalization(self) -> keras.layers.Layer:
        """Return the normalization, which some variants replace."""
        return LayerNormalization(self.epsilon, dtype=self.dtype_policy)

    def build(self, shape: Any) -> None:
        self.normalization.build(shape)
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        sublayer: Callable[[tf.Tensor], tf.Tensor],
        training: bool = False,
        real_tokens: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Apply a sub-layer with residual connection and normalization.

        Args:
            x: (B, T, D).
            sublayer: A function from (B, T, D) to (B, T, D).
            training: Whether dropout is on.
            real_tokens: Boolean (B, 1, 1, T), False at padding, for a normalization over
                several tokens; layer normalization sees one token at a time.

        Returns:
            (B, T, D).
        """
        x += self.dropout(sublayer(x), training=training)
        return self.normalization(x, training=training)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"dropout": self.dropout_rate, "epsilon": self.epsilon}
