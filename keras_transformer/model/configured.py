"""The base of layers that are made from a whole `ModelConfig`."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

from keras_transformer.config import ModelConfig


class ConfiguredLayer(keras.layers.Layer):
    """A layer whose only argument is the model's configuration.

    Args:
        config: The configuration, or its fields as a dictionary (as saved models hold it).
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config if isinstance(config, ModelConfig) else ModelConfig(**config)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"config": dataclasses.asdict(self.config)}
