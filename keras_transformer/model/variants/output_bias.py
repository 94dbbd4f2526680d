"""Output projection with a bias of the logits."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.embedding import TokenEmbedding


@keras.saving.register_keras_serializable("keras_transformer")
class BiasedTokenEmbedding(TokenEmbedding):
    """Token embedding that adds a bias (V,) to the logits.

    The arguments are as for `TokenEmbedding`.
    """

    def build(self, *shapes: Any) -> None:
        super().build(*shapes)
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.vocabulary_size,),
            initializer="zeros",
            # Logits are float32 in any precision.
            autocast=False,
        )

    def project(self, features: tf.Tensor) -> tf.Tensor:
        logits = super().project(features)  # (..., V)
        return logits + tf.cast(tf.convert_to_tensor(self.output_bias), logits.dtype)
