"""Base class of encoder and decoder: N layers of one class."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.config.model import Side
from keras_transformer.model import components
from keras_transformer.model.configured_layer import ConfiguredLayer
from keras_transformer.model.kernels.gradient_checkpointing import checkpointed


class LayerStack(ConfiguredLayer):
    """N layers of one class, with a final layer normalization if their outputs are not normalized.

    Args:
        config: The model's configuration.
        side: "encoder" or "decoder".
        layer_class: The class of the layers.
        count: N.
        gradient_checkpointing: Whether training keeps only the inputs of each layer and
            computes its activations again in the backward pass.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        config: ModelConfig | dict[str, Any],
        side: Side,
        layer_class: type[ConfiguredLayer],
        count: int,
        gradient_checkpointing: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        self.gradient_checkpointing = gradient_checkpointing
        self.layers = [
            layer_class(self.config, name=f"layer_{i}", dtype=self.dtype_policy)
            for i in range(count)
        ]
        self.final_norm = components.final_normalization(
            self.config.side(side), dtype=self.dtype_policy
        )

    def build(self, shape: Any, *_: Any) -> None:
        for layer in self.layers:
            layer.build(shape)
        if self.final_norm is not None:
            self.final_norm.build(shape)
        self.built = True

    def apply_layer(
        self, layer: keras.layers.Layer, *inputs: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Apply a layer, in training with gradient checkpointing if that is on."""
        if self.gradient_checkpointing and training:
            return checkpointed(layer, *inputs)
        return layer(*inputs, training=training)

    def apply_final_norm(self, x: tf.Tensor) -> tf.Tensor:
        """Normalize the last layer's output (B, T, D), if the stack has a final normalization."""
        return x if self.final_norm is None else self.final_norm(x)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"gradient_checkpointing": self.gradient_checkpointing}
