"""Positional encodings that are added to embeddings: sinusoidal and learned (section 3.5)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout


def sinusoidal_angles(positions: tf.Tensor, width: int) -> tf.Tensor:
    """Return pos / 10000^(2i / D) for each pair of features i (section 3.5).

    Args:
        positions: (T,).
        width: D; if it is odd, the last feature has no partner.

    Returns:
        (T, ceil(D / 2)) float32.
    """
    exponents = tf.range(0, width, 2, dtype=tf.float32) / width
    rates = tf.pow(10000.0, -exponents)
    return tf.cast(positions, tf.float32)[:, None] * rates[None, :]


def sinusoidal_encoding(
    length: tf.Tensor | int, width: int, first: tf.Tensor | int = 0
) -> tf.Tensor:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)).

    Args:
        length: T, number of positions.
        width: D.
        first: Position of the first row.

    Returns:
        (T, D) float32.
    """
    angles = sinusoidal_angles(first + tf.range(length), width)
    pairs = tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)  # (T, D / 2, 2)
    return tf.reshape(pairs, [length, 2 * angles.shape[1]])[:, :width]  # (T, D)


@keras.saving.register_keras_serializable("keras_transformer")
class PositionalEncoding(keras.layers.Layer):
    """Embeddings plus sinusoidal encoding (section 3.5), with dropout of the sum (section 5.4).

    Args:
        dropout: Dropout rate of the sum.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dropout_rate = dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def call(self, x: tf.Tensor, first: tf.Tensor | int = 0, training: bool = False) -> tf.Tensor:
        """Add the encodings of positions ``first``, ``first`` + 1, …

        Args:
            x: (B, T, D) embeddings.
            first: Position of the first token.
            training: Whether dropout is on.

        Returns:
            (B, T, D).
        """
        x = self.add_encoding(x, first)
        return self.dropout(x, training=training)

    def add_encoding(self, x: tf.Tensor, first: tf.Tensor | int) -> tf.Tensor:
        """Add the encodings to embeddings (B, T, D)."""
        encoding = sinusoidal_encoding(tf.shape(x)[1], x.shape[-1], first)  # (T, D)
        return x + tf.cast(encoding, x.dtype)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"dropout": self.dropout_rate}


@keras.saving.register_keras_serializable("keras_transformer")
class LearnedPositionalEncoding(PositionalEncoding):
    """Embeddings plus a learned vector for each position (Table 3, row E), with dropout.

    Args:
        max_positions: Number of learned vectors; later positions share the last one.
        dropout: Dropout rate of the sum.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, max_positions: int, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(dropout, **kwargs)
        self.max_positions = max_positions

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(
            name="table",
            shape=(self.max_positions, shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=shape[-1] ** -0.5),
        )
        self.built = True

    def add_encoding(self, x: tf.Tensor, first: tf.Tensor | int) -> tf.Tensor:
        rows = tf.minimum(first + tf.range(tf.shape(x)[1]), self.max_positions - 1)
        return x + tf.gather(tf.convert_to_tensor(self.table), rows)  # (B, T, D)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"max_positions": self.max_positions}
