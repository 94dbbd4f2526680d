"""The encoder: N layers of self-attention and feed-forward (section 3.1, left of figure 1)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.layer_stack import ConfiguredLayer, LayerStack
from keras_transformer.model.sublayer import SublayerConnection


def attention_from(
    config: ModelConfig, name: str, dtype: Any, cross: bool = False
) -> MultiHeadAttention:
    """An attention layer of this configuration.

    Args:
        config: The model's configuration.
        name: Name of the layer.
        dtype: Its dtype policy.
        cross: Whether keys come from the encoder; positions of two sequences have no
            distance, so rotary and ALiBi act in self-attention only.
    """
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        config.key_width,
        config.value_width,
        config.attention_dropout,
        "none" if cross or config.positions not in ("rotary", "alibi") else config.positions,
        config.attention,
        name=name,
        dtype=dtype,
    )


@keras.saving.register_keras_serializable("keras_transformer")
class EncoderLayer(ConfiguredLayer):
    """Self-attention, then feed-forward, each in a residual connection.

    Args:
        config: The model's configuration.
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config, dtype = self.config, self.dtype_policy
        self.self_attention = attention_from(config, "self_attention", dtype)
        self.feed_forward = FeedForward(
            config.d_model, config.d_ff, config.feed_forward_dropout, dtype=dtype
        )
        self.around_attention = SublayerConnection(config.norm, config.dropout, dtype=dtype)
        self.around_feed_forward = SublayerConnection(config.norm, config.dropout, dtype=dtype)

    def build(self, shape: Any, *_: Any) -> None:
        """Build the parts for inputs (B, S, D)."""
        for part in (
            self.self_attention,
            self.feed_forward,
            self.around_attention,
            self.around_feed_forward,
        ):
            part.build(shape)
        self.built = True

    def call(self, x: tf.Tensor, source_mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Encode once more.

        Args:
            x: (B, S, D).
            source_mask: Boolean (B, 1, 1, S), True at real tokens.
            training: Whether dropout is on.

        Returns:
            (B, S, D).
        """
        x = self.around_attention(
            x,
            sublayer=lambda y: self.self_attention(y, y, source_mask, training=training),
            training=training,
        )
        return self.around_feed_forward(
            x, sublayer=lambda y: self.feed_forward(y, training=training), training=training
        )

    def compute_output_shape(self, shape: Any, *_: Any) -> Any:
        """The input's shape."""
        return shape


@keras.saving.register_keras_serializable("keras_transformer")
class Encoder(LayerStack):
    """The stack of encoder layers, and for Pre-LN a last normalisation.

    Args:
        config: The model's configuration.
        recompute: Whether to keep no activations for the backward pass; see `LayerStack`.
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
            (B, S, D).
        """
        for layer in self.layers:
            x = self.run(layer, x, source_mask, training=training)
        return self.finish(x)

    def compute_output_shape(self, shape: Any, *_: Any) -> Any:
        """The input's shape."""
        return shape
