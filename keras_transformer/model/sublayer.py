"""Residual connection and layer normalisation around a sub-layer (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.dropout import Dropout

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
            return x + self.dropout(sublayer(self.normalization(x)), training=training)
        return self.normalization(x + self.dropout(sublayer(x), training=training))

    def compute_output_shape(self, shape: Any) -> Any:
        """The input's shape."""
        return shape

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"norm": self.norm, "dropout": self.dropout_rate}


def layer_normalization(dtype: Any) -> keras.layers.LayerNormalization:
    """The normalisation used throughout; Keras computes its moments in float32."""
    return keras.layers.LayerNormalization(epsilon=EPSILON, dtype=dtype)
