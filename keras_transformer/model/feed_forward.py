"""The position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout
from keras_transformer.model.kernels.linear import project


@keras.saving.register_keras_serializable("keras_transformer")
class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W1 + b1) W2 + b2 (equation 2), the same at every position.

    Variants override `activate`.

    Args:
        d_model: D, width of input and output.
        d_ff: Inner width.
        dropout: Dropout rate after the activation; the paper has no dropout here.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.d_ff = d_ff
        self.dropout_rate = dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, shape: Any) -> None:
        self.inner_kernel = self.add_weight(name="inner_kernel", shape=(self.d_model, self.d_ff))
        self.inner_bias = self.add_weight(
            name="inner_bias", shape=(self.d_ff,), initializer="zeros"
        )
        self.outer_kernel = self.add_weight(name="outer_kernel", shape=(self.d_ff, self.d_model))
        self.outer_bias = self.add_weight(
            name="outer_bias", shape=(self.d_model,), initializer="zeros"
        )
        self.built = True

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Transform each position independently.

        Args:
            x: (B, T, D).
            training: Whether dropout is on.

        Returns:
            (B, T, D).
        """
        inner = self.activate(project(x, self.inner_kernel, self.inner_bias))  # (B, T, d_ff)
        inner = self.dropout(inner, training=training)
        return project(inner, self.outer_kernel, self.outer_bias)  # (B, T, D)

    def activate(self, x: tf.Tensor) -> tf.Tensor:
        """Return max(0, x) of the inner features (B, T, d_ff)."""
        return tf.nn.relu(x)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "dropout": self.dropout_rate,
        }
