"""*Attention Is All You Need* in Keras 3: train on parallel text, translate, measure.

The public names load on first use, so that importing the package does not import
TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer.config import Config as Config
    from keras_transformer.data.tokenizer import Tokenizer as Tokenizer
    from keras_transformer.inference.translator import Translator as Translator
    from keras_transformer.model.transformer import build as build
    from keras_transformer.presets import preset as preset
    from keras_transformer.run import Run as Run
    from keras_transformer.training.trainer import train as fit_run

_PLACES = {
    "Config": ("config", "Config"),
    "preset": ("presets", "preset"),
    "Tokenizer": ("data.tokenizer", "Tokenizer"),
    "Translator": ("inference.translator", "Translator"),
    "build": ("model.transformer", "build"),
    "Run": ("run", "Run"),
    # `keras_transformer.train` is the entry point's module.
    "fit_run": ("training.trainer", "train"),
}

__all__ = [
    "Config",
    "Run",
    "Tokenizer",
    "Translator",
    "build",
    "fit_run",
    "preset",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
