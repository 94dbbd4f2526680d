"""Pre-LN: layer normalization before each sub-layer (Xiong et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_transformer.model.sublayer import SublayerConnection


@keras.saving.register_keras_serializable("keras_transformer")
class PreNormConnection(SublayerConnection):
    """Pre-LN: x + Dropout(Sublayer(LayerNorm(x))), easier to train in deep networks.

    The sum is not normalized, so the stack adds a final layer normalization.

    Args:
        dropout: Dropout rate of the sub-layer's output.
        epsilon: Added to the variance in the normalization.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    needs_final_normalization = True

    def call(
        self,
        x: tf.Tensor,
        sublayer: Callable[[tf.Tensor], tf.Tensor],
        training: bool = False,
        real_tokens: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Apply a sub-layer; see `SublayerConnection.call`."""
        normalized = self.normalization(x, training=training)
        return x + self.dropout(sublayer(normalized), training=training)
