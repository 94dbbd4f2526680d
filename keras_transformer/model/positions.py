"""How the model knows the order of tokens (section 3.5, and what came after it)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout


def _angles(positions: tf.Tensor, width: int) -> tf.Tensor:
    """pos / 10000^(2i / width) for i = 0 .. width/2, rounded up: (T, ceil(width / 2))."""
    exponents = tf.range(0, width, 2, dtype=tf.float32) / width
    rates = tf.pow(10000.0, -exponents)
    return tf.cast(positions, tf.float32)[:, None] * rates[None, :]


def sinusoidal_encoding(length: tf.Tensor | int, width: int, first: Any = 0) -> tf.Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same (section 3.5).

    Args:
        length: T, number of positions.
        width: D.
        first: The first position.

    Returns:
        (T, D) float32.
    """
    angles = _angles(first + tf.range(length), width)
    pairs = tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)  # (T, D / 2, 2)
    return tf.reshape(pairs, [length, 2 * angles.shape[1]])[:, :width]


def rotate(x: tf.Tensor, first: tf.Tensor | int = 0) -> tf.Tensor:
    """Turn each pair of features by an angle that grows with the position (Su et al. 2021).

    The product of a rotated query and a rotated key depends on their distance only.

    Args:
        x: (B, H, T, K), K even.
        first: Position of the first of the T.

    Returns:
        (B, H, T, K).
    """
    width = x.shape[-1]
    angles = _angles(first + tf.range(tf.shape(x)[2]), width)  # (T, K / 2)
    sin, cos = tf.cast(tf.sin(angles), x.dtype), tf.cast(tf.cos(angles), x.dtype)
    left, right = x[..., : width // 2], x[..., width // 2 :]
    return tf.concat([left * cos - right * sin, right * cos + left * sin], axis=-1)


def alibi_slopes(heads: int) -> list[float]:
    """The slope of each head: 2^(-8/n), its square, … (Press et al. 2022, section 3).

    Where ``heads`` is no power of two, the rest come from the series of twice the
    largest power below it, every other one, as in the authors' code.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    extra = [2.0 ** (-4.0 * (i + 1) / power) for i in range(0, 2 * (heads - power), 2)]
    return slopes + extra


def alibi_bias(
    heads: int,
    queries: tf.Tensor | int,
    keys: tf.Tensor | int,
    first: tf.Tensor | int = 0,
) -> tf.Tensor:
    """-slope * distance between query and key, to be added to attention scores.

    Distance counts in both directions; a decoder masks the keys after a query anyway.

    Args:
        heads: H.
        queries: T.
        keys: S.
        first: Position of the first query; the first key is at 0.

    Returns:
        (1, H, T, S) float32.
    """
    query_positions = first + tf.range(queries)
    return _alibi(heads, query_positions[:, None] - tf.range(keys)[None, :])[None]


def alibi_bias_at(heads: int, query: tf.Tensor | int, keys: tf.Tensor) -> tf.Tensor:
    """`alibi_bias` between one position and any others.

    Args:
        heads: H.
        query: The position of the query.
        keys: (B, S) int32, the positions of the keys.

    Returns:
        (B, H, 1, S) float32.
    """
    return tf.transpose(_alibi(heads, query - keys), [1, 0, 2])[:, :, None]


def _alibi(heads: int, distance: tf.Tensor) -> tf.Tensor:
    """(T, S) int32 to (H, T, S) float32."""
    slopes = tf.constant(alibi_slopes(heads), tf.float32)
    return -slopes[:, None, None] * tf.cast(tf.abs(distance), tf.float32)


@keras.saving.register_keras_serializable("keras_transformer")
class PositionalEncoding(keras.layers.Layer):
    """Adds an encoding of the position to each embedding, then drops some of it.

    Args:
        positions: "sinusoidal" or "learned"; with "rotary", "alibi" and "none" nothing is
            added here, since attention sees to positions or nobody does.
        max_positions: Number of learned positions; later positions share the last one.
        dropout: Share of the sum dropped in training (section 5.4).
    """

    def __init__(
        self,
        positions: str = "sinusoidal",
        max_positions: int = 1024,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.positions = positions
        self.max_positions = max_positions
        self.dropout_rate = dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, shape: Any) -> None:
        """Make the table of learned positions, where they are learned."""
        if self.positions == "learned":
            self.table = self.add_weight(
                name="table",
                shape=(self.max_positions, shape[-1]),
                initializer=keras.initializers.RandomNormal(stddev=shape[-1] ** -0.5),
            )
        self.built = True

    def call(self, x: tf.Tensor, first: Any = 0, training: bool = False) -> tf.Tensor:
        """Add positions ``first``, ``first`` + 1, … to (B, T, D); the same shape comes back."""
        length, width = tf.shape(x)[1], x.shape[-1]
        if self.positions == "sinusoidal":
            x += tf.cast(sinusoidal_encoding(length, width, first), x.dtype)
        elif self.positions == "learned":
            rows = tf.minimum(first + tf.range(length), self.max_positions - 1)
            x += tf.gather(tf.convert_to_tensor(self.table), rows)
        return self.dropout(x, training=training)

    def compute_output_shape(self, shape: Any) -> Any:
        """The input's shape."""
        return shape

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {
            "positions": self.positions,
            "max_positions": self.max_positions,
            "dropout": self.dropout_rate,
        }
