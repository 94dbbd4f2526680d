"""Sinusoidal positions of other systems: another order of features, other rates or first position.

The layout in halves is that of tensor2tensor, Marian, fairseq and OpenNMT-tf.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config.model import PositionLayout, PositionRates
from keras_transformer.model.positions import PositionalEncoding


@keras.saving.register_keras_serializable("keras_transformer")
class AlternativeSinusoidalEncoding(PositionalEncoding):
    """Embeddings plus sinusoids that differ from the paper's, with dropout of the sum.

    Args:
        layout: "interleaved", sin and cos in turn, or "halves", all sines before all cosines.
        rates: "paper" or "tensor2tensor"; see `alternative_sinusoids`.
        first_position: Position of the first token.
        dropout: Dropout rate of the sum.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        layout: PositionLayout = "interleaved",
        rates: PositionRates = "paper",
        first_position: int = 0,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout, **kwargs)
        self.layout = layout
        self.rates = rates
        self.first_position = first_position

    def add_encoding(self, x: tf.Tensor, first: tf.Tensor | int) -> tf.Tensor:
        positions = first + self.first_position + tf.range(tf.shape(x)[1])
        encoding = alternative_sinusoids(positions, x.shape[-1], self.layout, self.rates)
        return x + tf.cast(encoding, x.dtype)  # (B, T, D)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "layout": self.layout,
            "rates": self.rates,
            "first_position": self.first_position,
        }


def alternative_sinusoids(
    positions: tf.Tensor, width: int, layout: PositionLayout, rates: PositionRates
) -> tf.Tensor:
    """Return sines and cosines of p / 10000^(i / n), with i from 0 to D / 2 - 1.

    Args:
        positions: (T,), p.
        width: D, even; 4 or more for the rates of tensor2tensor.
        layout: "interleaved" or "halves".
        rates: "paper": n = D / 2 (section 3.5). "tensor2tensor": n = D / 2 - 1, so that the last
            rate is exactly 1 / 10000.

    Returns:
        (T, D) float32.
    """
    count = width // 2
    exponents = tf.range(count, dtype=tf.float32) / (count if rates == "paper" else count - 1)
    angles = tf.cast(positions, tf.float32)[:, None] * tf.pow(10000.0, -exponents)  # (T, D / 2)
    sin, cos = tf.sin(angles), tf.cos(angles)
    if layout == "halves":
        return tf.concat([sin, cos], axis=1)  # (T, D)
    return tf.reshape(tf.stack([sin, cos], axis=-1), [-1, width])  # (T, D)
