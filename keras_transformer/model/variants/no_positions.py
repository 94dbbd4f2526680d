"""Embeddings without positions, for rotary and ALiBi attention or no positions at all."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_transformer.model.positions import PositionalEncoding


@keras.saving.register_keras_serializable("keras_transformer")
class NoPositionalEncoding(PositionalEncoding):
    """Embeddings with dropout and nothing else.

    Args:
        dropout: Dropout rate of the embeddings.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def add_encoding(self, x: tf.Tensor, first: tf.Tensor | int) -> tf.Tensor:
        return x
