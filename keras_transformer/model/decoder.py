"""The decoder (section 3.1, figure 1, right).

Its N layers consist of masked self-attention, cross-attention to the encoder's output (the
``memory``), and a feed-forward network.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import components
from keras_transformer.model.configured_layer import ConfiguredLayer
from keras_transformer.model.layer_stack import LayerStack


@keras.saving.register_keras_serializable("keras_transformer")
class DecoderLayer(ConfiguredLayer):
    """Masked self-attention, cross-attention and feed-forward, each inside a `SublayerConnection`.

    Args:
        config: The model's configuration.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config, options = self.config.side("decoder"), {"dtype": self.dtype_policy}
        self.self_attention = components.self_attention(config, name="self_attention", **options)
        self.cross_attention = components.cross_attention(config, name="cross_attention", **options)
        self.feed_forward = components.feed_forward(
            config, "decoder", name="feed_forward", **options
        )
        self.self_attention_connection = components.sublayer_connection(
            config, name="self_attention_connection", **options
        )
        self.cross_attention_connection = components.sublayer_connection(
            config, name="cross_attention_connection", **options
        )
        self.feed_forward_connection = components.feed_forward_connection(
            config, "decoder", name="feed_forward_connection", **options
        )

    def build(self, shape: Any, *_: Any) -> None:
        self.self_attention.build(shape)
        self.cross_attention.build(shape)
        self.feed_forward.build(shape)
        self.self_attention_connection.build(shape)
        self.cross_attention_connection.build(shape)
        self.feed_forward_connection.build(shape)
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor,
        target_mask: tf.Tensor,
        source_mask: tf.Tensor,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Decode all target positions at once.

        Args:
            x: (B, T, D).
            memory: (B, S, D), the encoder's output.
            target_mask: Boolean (B, 1, 1, T), True at real target tokens.
            source_mask: Boolean (B, 1, 1, S), True at real source tokens.
            training: Whether dropout is on.
            return_weights: Whether to return the attention weights too.

        Returns:
            (B, T, D), and with ``return_weights`` also the float32 weights of self-attention
            (B, H, T, T) and of cross-attention (B, H, T, S).
        """
        own: tf.Tensor | None = None
        cross: tf.Tensor | None = None

        def attend_to_past(y: tf.Tensor) -> tf.Tensor:
            nonlocal own
            inputs = y, y, target_mask
            if not return_weights:
                return self.self_attention(*inputs, causal=True, training=training)
            output, own = self.self_attention(
                *inputs, causal=True, training=training, return_weights=True
            )
            return output

        def attend_to_source(y: tf.Tensor) -> tf.Tensor:
            nonlocal cross
            inputs = y, memory, source_mask
            if not return_weights:
                return self.cross_attention(*inputs, training=training)
            output, cross = self.cross_attention(*inputs, training=training, return_weights=True)
            return output

        def transform(y: tf.Tensor) -> tf.Tensor:
            return self.feed_forward(y, training=training)

        options = {"training": training, "real_tokens": target_mask}
        x = self.self_attention_connection(x, sublayer=attend_to_past, **options)
        x = self.cross_attention_connection(x, sublayer=attend_to_source, **options)
        x = self.feed_forward_connection(x, sublayer=transform, **options)
        return (x, own, cross) if return_weights else x

    def compute_output_spec(self, x: Any, memory: Any, *_: Any, **options: Any) -> Any:
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        heads = self.self_attention.heads
        own, cross = (
            keras.KerasTensor((x.shape[0], heads, x.shape[1], keys), dtype="float32")
            for keys in (x.shape[1], memory.shape[1])
        )
        return output, own, cross


@keras.saving.register_keras_serializable("keras_transformer")
class Decoder(LayerStack):
    """The stack of decoder layers.

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
        layers = ModelConfig.of(config).decoder_layers
        super().__init__(config, "decoder", DecoderLayer, layers, gradient_checkpointing, **kwargs)

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor,
        target_mask: tf.Tensor,
        source_mask: tf.Tensor,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, list[tf.Tensor]]:
        """Decode all target positions at once.

        Args:
            x: (B, T, D) embeddings with positions.
            memory: (B, S, D), the encoder's output.
            target_mask: Boolean (B, 1, 1, T), True at real target tokens.
            source_mask: Boolean (B, 1, 1, S), True at real source tokens.
            training: Whether dropout is on.
            return_weights: Whether to return the cross-attention weights too.

        Returns:
            (B, T, D), and with ``return_weights`` also (B, H, T, S) float32 for each layer.
        """
        inputs = memory, target_mask, source_mask
        if not return_weights:
            for layer in self.layers:
                x = self.apply_layer(layer, x, *inputs, training=training)
            return self.apply_final_norm(x)
        # Without gradient checkpointing, which returns a single tensor.
        weights = []
        for layer in self.layers:
            x, _, cross = layer(x, *inputs, training=training, return_weights=True)
            weights.append(cross)
        return self.apply_final_norm(x), weights

    def compute_output_spec(self, x: Any, memory: Any, *_: Any, **options: Any) -> Any:
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        heads = self.config.side("decoder").heads
        shape = (x.shape[0], heads, x.shape[1], memory.shape[1])
        return output, [keras.KerasTensor(shape, dtype="float32") for _ in self.layers]
