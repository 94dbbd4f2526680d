"""Sub-layers without the layer normalization of section 3.1."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_transformer.model.sublayer import SublayerConnection


@keras.saving.register_keras_serializable("keras_transformer")
class NoNormalizationConnection(SublayerConnection):
    """x + Dropout(Sublayer(x)), and no final normalization: activations grow with each layer.

    Args:
        dropout: Dropout rate of the sub-layer's output.
        epsilon: Not used.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def make_normalization(self) -> keras.layers.Layer:
        return keras.layers.Identity(dtype=self.dtype_policy)

    def call(
        self,
        x: tf.Tensor,
        sublayer: Callable[[tf.Tensor], tf.Tensor],
        training: bool = False,
        real_tokens: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Apply a sub-layer; see `SublayerConnection.call`."""
        return x + self.dropout(sublayer(x), training=training)
