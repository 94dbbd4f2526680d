"""The bases of layers that are made from a whole `ModelConfig`."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model.kernels.gradient_checkpointing import checkpointed
from keras_transformer.model.sublayer import layer_normalization


class ConfiguredLayer(keras.layers.Layer):
    """A layer whose only argument is the model's configuration.

    Args:
        config: The configuration, or its fields as a dictionary (as saved models hold it).
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = ModelConfig.of(config)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"config": dataclasses.asdict(self.config)}


class LayerStack(ConfiguredLayer):
    """N layers of one kind, and for Pre-LN a last normalisation.

    Args:
        config: The model's configuration.
        layer_class: What to stack.
        count: N.
        recompute: Whether, in training, only the inputs of a layer are kept for the backward
            pass, and what lies between them and its output is computed a second time.
    """

    def __init__(
        self,
        config: ModelConfig | dict[str, Any],
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
        pre = self.config.norm == "pre"
        self.final_norm = layer_normalization(self.dtype_policy) if pre else None

    def build(self, shape: Any, *_: Any) -> None:
        """Build the layers for inputs (B, T, D)."""
        for layer in self.layers:
            layer.build(shape)
        if self.final_norm is not None:
            self.final_norm.build(shape)
        self.built = True

    def run(self, layer: keras.layers.Layer, *inputs: tf.Tensor, training: bool) -> tf.Tensor:
        """What ``layer`` makes of its inputs."""
        if self.gradient_checkpointing and training:
            return checkpointed(layer, *inputs)
        return layer(*inputs, training=training)

    def finish(self, x: tf.Tensor) -> tf.Tensor:
        """What follows the last layer, (B, T, D) to the same shape."""
        return x if self.final_norm is None else self.final_norm(x)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"gradient_checkpointing": self.gradient_checkpointing}
