"""Token embeddings, and the output projection that shares their matrix (section 3.4)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """One matrix E (V, D): its rows are embeddings, and products with it are logits.

    Args:
        vocabulary_size: V.
        d_model: D.
        scale: Factor of the embeddings; None: sqrt(D).
        kwargs: Arguments of `keras.layers.Layer`.
    """

    output_bias: Any = None
    """Bias (V,) of the logits; the paper has none."""

    def __init__(
        self, vocabulary_size: int, d_model: int, scale: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.scale = d_model**0.5 if scale is None else scale

    def build(self, *shapes: Any) -> None:
        # Multiplied by sqrt(D), an embedding is then about as large as a positional encoding.
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.matrix = self.add_weight(
            name="matrix",
            shape=(self.vocabulary_size, self.d_model),
            initializer=initializer,
            # Autocast would cast the whole matrix to look up a few rows.
            autocast=False,
        )
        self.built = True

    def call(self, inputs: tf.Tensor, reverse: bool = False) -> tf.Tensor:
        """Embed ids, or with ``reverse`` project features to logits.

        Args:
            inputs: (B, T) ids; with ``reverse`` (..., D) features.
            reverse: Whether to project instead of embedding.

        Returns:
            (B, T, D) embeddings times ``scale``; with ``reverse`` (..., V) float32 logits.
        """
        return self.project(inputs) if reverse else self.embed(inputs)

    def embed(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the embeddings of ids (B, T), times ``scale``: (B, T, D)."""
        rows = tf.gather(tf.convert_to_tensor(self.matrix), ids)  # (B, T, D)
        return tf.cast(rows, self.compute_dtype) * self.scale

    def project(self, features: tf.Tensor) -> tf.Tensor:
        """Return the logits h Eᵀ of features (..., D): (..., V), float32 in any precision."""
        matrix = tf.cast(tf.convert_to_tensor(self.matrix), self.compute_dtype)
        flat = tf.reshape(tf.cast(features, self.compute_dtype), [-1, self.d_model])  # (N, D)
        logits = tf.cast(tf.matmul(flat, matrix, transpose_b=True), tf.float32)  # (N, V)
        shape = tf.concat([tf.shape(features)[:-1], [self.vocabulary_size]], axis=0)
        return tf.reshape(logits, shape)  # (..., V)

    def compute_output_spec(self, inputs: Any, reverse: bool = False) -> Any:
        if reverse:
            return keras.KerasTensor((*inputs.shape[:-1], self.vocabulary_size), dtype="float32")
        return keras.KerasTensor((*inputs.shape, self.d_model), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
            "scale": self.scale,
        }
