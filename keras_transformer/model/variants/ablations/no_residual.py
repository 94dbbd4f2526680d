"""Sub-layers without the residual connection of section 3.1."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_transformer.model.sublayer import SublayerConnection


@keras.saving.register_keras_serializable("keras_transformer")
class NoResidualConnection(SublayerConnection):
    """LayerNorm(Dropout(Sublayer(x))): all positions become equal (Dong et al. 2021).

    Args:
        dropout: Dropout rate of the sub-layer's output.
        epsilon: Added to the variance in the normalization.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def call(
        self,
        x: tf.Tensor,
        sublayer: Callable[[tf.Tensor], tf.Tensor],
        training: bool = False,
        real_tokens: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Apply a sub-layer; see `SublayerConnection.call`."""
        output = self.dropout(sublayer(x), training=training)
        return self.normalization(output, training=training)
