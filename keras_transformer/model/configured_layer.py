"""Base class of layers that are built from a whole `ModelConfig`."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

from keras_transformer.config import ModelConfig


class ConfiguredLayer(keras.layers.Layer):
    """A layer whose first argument is the model's configuration.

    Args:
        config: The configuration, or its fields as a dictionary, as in saved models.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, config: ModelConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = ModelConfig.of(config)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"config": dataclasses.asdict(self.config)}
