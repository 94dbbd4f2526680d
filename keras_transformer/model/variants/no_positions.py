"""Embeddings without positions, for attention that sees positions itself, or none at all."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_transformer.model.positions import PositionalEncoding


@keras.saving.register_keras_serializable("keras_transformer")
class NoPositionalEncoding(PositionalEncoding):
    """Add nothing to embeddings, then drop some of them.

    Args:
        dropout: Share of the embeddings dropped in training.
        kwargs: Of `keras.layers.Layer`.
    """

    def add_encoding(self, x: tf.Tensor, first: tf.Tensor | int) -> tf.Tensor:
        return x
