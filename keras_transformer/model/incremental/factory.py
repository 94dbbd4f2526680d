"""Choice of the incremental decoder by the model's architecture."""

from __future__ import annotations

from typing import Protocol

import keras

from keras_transformer.model.incremental.decoder import IncrementalDecoder
from keras_transformer.model.incremental.interface import DecodingModel
from keras_transformer.model.incremental.recurrent import RecurrentIncrementalDecoder


class _DecoderClass(Protocol):
    def __call__(self, model: keras.Model, fixed: bool = False) -> DecodingModel: ...


INCREMENTAL_DECODERS: dict[str, _DecoderClass] = {
    "transformer": IncrementalDecoder,
    "recurrent": RecurrentIncrementalDecoder,
}
"""Classes by ``model.architecture``."""


def incremental_decoder(model: keras.Model, fixed: bool = False) -> DecodingModel:
    """Return the incremental decoder of a model.

    Args:
        model: A model from `transformer.build`.
        fixed: Whether the weights never change after the first search. They are then prepared
            once instead of in each search, for a second copy of some of them in memory.
    """
    architecture = model.get_layer("decoder").config.architecture
    return INCREMENTAL_DECODERS[architecture](model, fixed)
