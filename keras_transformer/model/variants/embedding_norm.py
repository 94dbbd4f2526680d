"""Layer normalization of embeddings with positions, before dropout."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.normalization import EPSILON, LayerNormalization
from keras_transformer.model.positions import PositionalEncoding


@keras.saving.register_keras_serializable("keras_transformer")
class NormalizedPositionalEncoding(PositionalEncoding):
    """Dropout(LayerNorm(x + PE)), with any positional encoding.

    Args:
        encoding: The positional encoding, without dropout.
        dropout: Dropout rate of the normalized sum.
        epsilon: Added to the variance in the normalization.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        encoding: PositionalEncoding | dict[str, Any],
        dropout: float = 0.0,
        epsilon: float = EPSILON,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout, **kwargs)
        self.encoding: PositionalEncoding = (
            keras.saving.deserialize_keras_object(encoding)  # in saved models
            if isinstance(encoding, dict)
            else encoding
        )
        self.epsilon = epsilon
        self.normalization = LayerNormalization(epsilon, dtype=self.dtype_policy)

    def build(self, shape: Any) -> None:
        if not self.encoding.built:  # in saved models it comes built
            self.encoding.build(shape)
        self.normalization.build(shape)
        self.built = True

    def add_encoding(self, x: tf.Tensor, first: tf.Tensor | int) -> tf.Tensor:
        return self.normalization(self.encoding.add_encoding(x, first))

    @property
    def table(self) -> keras.Variable:
        """Learned positions, if the encoding has them."""
        return self.encoding.table

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "encoding": keras.saving.serialize_keras_object(self.encoding),
            "epsilon": self.epsilon,
        }
