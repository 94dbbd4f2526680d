"""The encoder: N layers of self-attention and feed-forward (section 3.1, figure 1, left)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import components
from keras_transformer.model.configured_layer import ConfiguredLayer
from keras_transformer.model.layer_stack import LayerStack


@keras.saving.register_keras_serializable("keras_transformer")
class EncoderLayer(ConfiguredLayer):
    """Self-attention and feed-forward, each inside a `SublayerConnection`.

    Args:
        config: The model's configuration.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config, options = self.config.side("encoder"), {"dtype": self.dtype_policy}
        self.self_attention = components.self_attention(config, name="self_attention", **options)
        self.feed_forward = components.feed_forward(
            config, "encoder", name="feed_forward", **options
        )
        self.self_attention_connection = components.sublayer_connection(
            config, name="self_attention_connection", **options
        )
        self.feed_forward_connection = components.feed_forward_connection(
            config, "encoder", name="feed_forward_connection", **options
        )

    def build(self, shape: Any, *_: Any) -> None:
        self.self_attention.build(shape)
        self.feed_forward.build(shape)
        self.self_attention_connection.build(shape)
        self.feed_forward_connection.build(shape)
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        source_mask: tf.Tensor,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Encode all source positions.

        Args:
            x: (B, S, D).
            source_mask: Boolean (B, 1, 1, S), True at real tokens.
            training: Whether dropout is on.
            return_weights: Whether to return the attention weights too.

        Returns:
            (B, S, D), and with ``return_weights`` also (B, H, S, S) float32.
        """
        weights: tf.Tensor | None = None

        def attend(y: tf.Tensor) -> tf.Tensor:
            nonlocal weights
            inputs = y, y, source_mask
            if not return_weights:
                return self.self_attention(*inputs, training=training)
            output, weights = self.self_attention(*inputs, training=training, return_weights=True)
            return output

        def transform(y: tf.Tensor) -> tf.Tensor:
            return self.feed_forward(y, training=training)

        options = {"training": training, "real_tokens": source_mask}
        x = self.self_attention_connection(x, sublayer=attend, **options)
        x = self.feed_forward_connection(x, sublayer=transform, **options)
        return (x, weights) if return_weights else x

    def compute_output_spec(self, x: Any, *_: Any, **options: Any) -> Any:
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        shape = (x.shape[0], self.config.heads, x.shape[1], x.shape[1])
        return output, keras.KerasTensor(shape, dtype="float32")


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
        super().__init__(config, "encoder", EncoderLayer, layers, gradient_checkpointing, **kwargs)

    def call(
        self,
        x: tf.Tensor,
        source_mask: tf.Tensor,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, list[tf.Tensor]]:
        """Encode embedded source sentences.

        Args:
            x: (B, S, D) embeddings with positions.
            source_mask: Boolean (B, 1, 1, S), True at real tokens.
            training: Whether dropout is on.
            return_weights: Whether to return the attention weights too.

        Returns:
            (B, S, D), the ``memory`` of the decoder, and with ``return_weights`` also
            (B, H, S, S) float32 for each layer.
        """
        if not return_weights:
            for layer in self.layers:
                x = self.apply_layer(layer, x, source_mask, training=training)
            return self.apply_final_norm(x)
        # Without gradient checkpointing, which returns a single tensor.
        weights = []
        for layer in self.layers:
            x, own = layer(x, source_mask, training=training, return_weights=True)
            weights.append(own)
        return self.apply_final_norm(x), weights

    def compute_output_spec(self, x: Any, *_: Any, **options: Any) -> Any:
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        shape = (x.shape[0], self.config.heads, x.shape[1], x.shape[1])
        return output, [keras.KerasTensor(shape, dtype="float32") for _ in self.layers]
