"""The decoder: N layers of masked self-attention, attention to the encoder, and
feed-forward (section 3.1, right of figure 1), as a whole and step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model.attention import KeysValues
from keras_transformer.model.encoder import attention_from
from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.layer_stack import ConfiguredLayer, LayerStack
from keras_transformer.model.sublayer import SublayerConnection


class StepContext(NamedTuple):
    """Where a search step is, the same for every layer."""

    position: tf.Tensor | int
    """Of all rows."""
    beam: int
    """W, rows of a sentence."""
    slots: tf.Tensor
    """() int32, C * W: those of a sentence in the caches."""
    rows: tf.Tensor
    """(B * H,) int32: rows of the caches that this step fills."""
    past_bias: tf.Tensor
    """(B, H, W, C * W) float32, added to the scores of self-attention."""
    memory_bias: tf.Tensor
    """(B, H, W, S) float32, added to the scores of the attention to the encoder."""


@keras.saving.register_keras_serializable("keras_transformer")
class DecoderLayer(ConfiguredLayer):
    """Masked self-attention, attention to the encoder, feed-forward.

    Args:
        config: The model's configuration.
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config, dtype = self.config, self.dtype_policy
        self.self_attention = attention_from(config, "self_attention", dtype)
        self.cross_attention = attention_from(config, "cross_attention", dtype, cross=True)
        self.feed_forward = FeedForward(
            config.d_model, config.d_ff, config.feed_forward_dropout, dtype=dtype
        )
        self.around_self = SublayerConnection(config.norm, config.dropout, dtype=dtype)
        self.around_cross = SublayerConnection(config.norm, config.dropout, dtype=dtype)
        self.around_feed_forward = SublayerConnection(config.norm, config.dropout, dtype=dtype)

    def build(self, shape: Any, *_: Any) -> None:
        """Build the parts for inputs (B, T, D)."""
        for part in (
            self.self_attention,
            self.cross_attention,
            self.feed_forward,
            self.around_self,
            self.around_cross,
            self.around_feed_forward,
        ):
            part.build(shape)
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor,
        target_mask: tf.Tensor,
        source_mask: tf.Tensor,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Decode all target positions at once.

        Args:
            x: (B, T, D).
            memory: (B, S, D) from the encoder.
            target_mask: Boolean (B, 1, 1, T), True at real target tokens.
            source_mask: Boolean (B, 1, 1, S), True at real source tokens.
            training: Whether dropout is on.
            return_weights: Whether to return attention to the encoder too.

        Returns:
            (B, T, D), and with ``return_weights`` also (B, H, T, S) float32.
        """
        weights: list[tf.Tensor] = []

        def attend_to_memory(y: tf.Tensor) -> tf.Tensor:
            options = {"training": training, "return_weights": return_weights}
            attended = self.cross_attention(y, memory, source_mask, **options)
            if not return_weights:
                return attended
            output, cross = attended
            weights.append(cross)
            return output

        x = self.around_self(
            x,
            sublayer=lambda y: self.self_attention(
                y, y, target_mask, causal=True, training=training
            ),
            training=training,
        )
        x = self.around_cross(x, sublayer=attend_to_memory, training=training)
        x = self.around_feed_forward(
            x, sublayer=lambda y: self.feed_forward(y, training=training), training=training
        )
        return (x, weights[0]) if return_weights else x

    def cross_attention_cache(self, memory: tf.Tensor, source_mask: tf.Tensor) -> KeysValues:
        """What every step needs of the source.

        Args:
            memory: (B, S, D) from the encoder.
            source_mask: Boolean (B, 1, 1, S).

        Returns:
            Keys (B, H, K, S), turned once for the products of every step, and values
            (B, H, S, K') of the attention to the encoder.
        """
        keys, values = self.cross_attention.keys_values(memory)
        keys = tf.transpose(keys, [0, 1, 3, 2])
        # A sentence without any token gives nothing, whatever the weights are.
        real = tf.reduce_any(source_mask, axis=-1, keepdims=True)
        return KeysValues(keys, values * tf.cast(real, values.dtype))

    def step(
        self,
        x: tf.Tensor,
        joint_kernel: tf.Tensor,
        past: KeysValues,
        memory: KeysValues,
        context: StepContext,
    ) -> tuple[tf.Tensor, KeysValues]:
        """Decode one position of every row, given keys and values of those before it.

        Args:
            x: (R, D), the W rows of one sentence next to each other.
            joint_kernel: That of the self-attention.
            past: Rows of self-attention keys (B * H * C, W * K) and values (B * H * C, W * K').
            memory: From ``cross_attention_cache``, once for each sentence.
            place: Where all rows are, and what they may see.

        Returns:
            (R, D), and ``past`` with the keys and values of this position, written into the
            very tensors that came in.
        """
        kept: list[KeysValues] = []

        def attend_to_past(y: tf.Tensor) -> tf.Tensor:
            attention = self.self_attention
            queries, new = attention.project_position(
                y, joint_kernel, context.position, context.beam
            )
            updated = KeysValues(
                *(
                    # The functional updates copy all of a cache to write one position.
                    tf.raw_ops.InplaceUpdate(x=rows, i=context.rows, v=own)
                    for rows, own in zip(past, new, strict=True)
                )
            )
            kept.append(updated)
            widths = attention.key_width, attention.value_width
            slots = KeysValues(
                *(
                    tf.reshape(part, [-1, attention.heads, context.slots, width])
                    for part, width in zip(updated, widths, strict=True)
                )
            )
            return attention.attend_from(queries, slots, context.past_bias)

        def attend_to_memory(y: tf.Tensor) -> tf.Tensor:
            attention = self.cross_attention
            # The W rows of a sentence attend to the same keys, as W positions of it would.
            queries = attention.scaled_queries(y, context.beam)
            return attention.attend_from(queries, memory, context.memory_bias, keys_transposed=True)

        x = self.around_self(x, sublayer=attend_to_past)
        x = self.around_cross(x, sublayer=attend_to_memory)
        x = self.around_feed_forward(x, sublayer=self.feed_forward)
        return x, kept[0]

    def compute_output_spec(self, x: Any, memory: Any, *_: Any, **options: Any) -> Any:
        """(B, T, D), and (B, H, T, S) where asked for."""
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        shape = (x.shape[0], self.config.heads, x.shape[1], memory.shape[1])
        return output, keras.KerasTensor(shape, dtype="float32")


@keras.saving.register_keras_serializable("keras_transformer")
class Decoder(LayerStack):
    """The stack of decoder layers, and for Pre-LN a last normalisation.

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
        layers = ModelConfig.of(config).decoder_layers
        super().__init__(config, DecoderLayer, layers, gradient_checkpointing, **kwargs)

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
            memory: (B, S, D) from the encoder.
            target_mask: Boolean (B, 1, 1, T), True at real target tokens.
            source_mask: Boolean (B, 1, 1, S), True at real source tokens.
            training: Whether dropout is on.
            return_weights: Whether to return attention to the encoder too.

        Returns:
            (B, T, D), and with ``return_weights`` one (B, H, T, S) for each layer.
        """
        inputs = memory, target_mask, source_mask
        if not return_weights:
            for layer in self.layers:
                x = self.run(layer, x, *inputs, training=training)
            return self.finish(x)
        weights = []
        for layer in self.layers:
            x, cross = layer(x, *inputs, training=training, return_weights=True)
            weights.append(cross)
        return self.finish(x), weights

    def cross_attention_cache(self, memory: tf.Tensor, source_mask: tf.Tensor) -> list[KeysValues]:
        """`DecoderLayer.cross_attention_cache` of each layer."""
        return [layer.cross_attention_cache(memory, source_mask) for layer in self.layers]

    def joint_kernels(self) -> list[tf.Tensor]:
        """`MultiHeadAttention.joint_kernel` of each layer's self-attention."""
        return [layer.self_attention.joint_kernel() for layer in self.layers]

    def step(
        self,
        x: tf.Tensor,
        joint_kernels: list[tf.Tensor],
        past: list[KeysValues],
        memory: list[KeysValues],
        context: StepContext,
    ) -> tuple[tf.Tensor, list[KeysValues]]:
        """Decode one position of every row; see `DecoderLayer.step`, which it stacks."""
        kept = []
        for layer, *own in zip(self.layers, joint_kernels, past, memory, strict=True):
            x, keys_values = layer.step(x, *own, context)
            kept.append(keys_values)
        return self.finish(x), kept

    def compute_output_spec(self, x: Any, memory: Any, *_: Any, **options: Any) -> Any:
        """(B, T, D), and (B, H, T, S) for each layer where asked for."""
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        shape = (x.shape[0], self.config.heads, x.shape[1], memory.shape[1])
        return output, [keras.KerasTensor(shape, dtype="float32") for _ in self.layers]
