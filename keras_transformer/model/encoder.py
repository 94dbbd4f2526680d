"""The encoder: N layers of self-attention and feed-forward (section 3.1, figure 1, left)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import components
from keras_transformer.model.layer_stack import ConfiguredLayer, LayerStack


@keras.saving.register_keras_serializable("keras_transformer")
class EncoderLayer(ConfiguredLayer):
    """Self-attention and feed-forward, each inside a `SublayerConnection`.

    Args:
        config: The model's configuration.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config, options = self.config, {"dtype": self.dtype_policy}
        self.self_attention = components.self_attention(config, name="self_attention", **options)
        self.feed_forward = components.feed_forward(config, name="feed_forward", **options)
        self.self_attention_connection = components.sublayer_connection(
            config, name="self_attention_connection", **options
        )
        self.feed_forward_connection = components.sublayer_connection(
            config, name="feed_forward_connection", **options
        )

    def build(self, shape: Any, *_: Any) -> None:
        self.self_attention.build(shape)
        self.feed_forward.build(shape)
        self.self_attention_connection.build(shape)
        self.feed_forward_connection.build(shape)
        self.built = True

    def call(self, x: tf.Tensor, source_mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Encode all source positions.

        Args:
            x: (B, S, D).
            source_mask: Boolean (B, 1, 1, S), True at real tokens.
            training: Whether dropout is on.

        Returns:
            (B, S, D).
        """

        def attend(y: tf.Tensor) -> tf.Tensor:
            return self.self_attention(y, y, source_mask, training=training)

        def transform(y: tf.Tensor) -> tf.Tensor:
            return self.feed_forward(y, training=training)

        x = self.self_attention_connection(x, sublayer=attend, training=training)
        return self.feed_forward_connection(x, sublayer=transform, training=training)

    def compute_output_shape(self, shape: Any, *_: Any) -> Any:
        return shape


@keras.saving.register_keras_serializable("keras_transformer")
class Encoder(LayerStack):
    """The stack of encoder layers.

    Args:
        config: The model's configuration.
        gradient_checkpointing: Whether training keeps only the inputs of each layer and
            computes its activations again in the backward pass.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        config: ModelConfig | dict[str, Any],
        gradient_checkpointing: bool = False,
        **kwargs: Any,
    ) -> None:
        layers = ModelConfig.of(config).encoder_layers
        super().__init__(config, EncoderLayer, layers, gradient_checkpointing, **kwargs)

    def call(self, x: tf.Tensor, source_mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Encode embedded source sentences.

        Args:
            x: (B, S, D) embeddings with positions.
            source_mask: Boolean (B, 1, 1, S), True at real tokens.
            training: Whether dropout is on.

        Returns:
            (B, S, D), the ``memory`` of the decoder.
        """
        for layer in self.layers:
            x = self.apply_layer(layer, x, source_mask, training=training)
        return self.apply_final_norm(x)

    def compute_output_shape(self, shape: Any, *_: Any) -> Any:
        return shape
