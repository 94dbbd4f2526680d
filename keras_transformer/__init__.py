"""*Attention Is All You Need* in Keras 3: layers, training, translation and export.

The public names load on first use, so that importing the package does not import TensorFlow::

    import keras_transformer as kt

    model = kt.build(kt.preset("tiny").model)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer import layers as layers
    from keras_transformer import losses as losses
    from keras_transformer import metrics as metrics
    from keras_transformer.allocator import tune_allocator as tune_allocator
    from keras_transformer.config import Config as Config
    from keras_transformer.config import DataConfig as DataConfig
    from keras_transformer.config import ModelConfig as ModelConfig
    from keras_transformer.config import SearchConfig as SearchConfig
    from keras_transformer.config import TrainConfig as TrainConfig
    from keras_transformer.data.tokenizer import Tokenizer as Tokenizer
    from keras_transformer.inference.translator import Translator as Translator
    from keras_transformer.model.transformer import build as build
    from keras_transformer.presets import preset as preset
    from keras_transformer.run import Run as Run
    from keras_transformer.serving.export import export as export_run
    from keras_transformer.training.schedule import NoamSchedule as NoamSchedule
    from keras_transformer.training.trainer import train as train_run

# `train` and `export` are the entry points' modules, hence `train_run` and `export_run`.
_SOURCES = {
    "Config": "config:Config",
    "DataConfig": "config:DataConfig",
    "ModelConfig": "config:ModelConfig",
    "NoamSchedule": "training.schedule:NoamSchedule",
    "Run": "run:Run",
    "SearchConfig": "config:SearchConfig",
    "Tokenizer": "data.tokenizer:Tokenizer",
    "TrainConfig": "config:TrainConfig",
    "Translator": "inference.translator:Translator",
    "build": "model.transformer:build",
    "export_run": "serving.export:export",
    "layers": "layers",
    "losses": "losses",
    "metrics": "metrics",
    "preset": "presets:preset",
    "train_run": "training.trainer:train",
    "tune_allocator": "allocator:tune_allocator",
}
"""Module, or module and attribute, of each public name."""

_WITHOUT_KERAS = ("allocator", "config", "data.tokenizer", "presets", "run")
"""Modules of public names that do not import Keras."""

__all__ = [
    "Config",
    "DataConfig",
    "ModelConfig",
    "NoamSchedule",
    "Run",
    "SearchConfig",
    "Tokenizer",
    "TrainConfig",
    "Translator",
    "build",
    "export_run",
    "layers",
    "losses",
    "metrics",
    "preset",
    "train_run",
    "tune_allocator",
]


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _SOURCES[name].partition(":")
    if module not in _WITHOUT_KERAS:
        importlib.import_module(f"{__name__}.environment").import_keras()
    loaded = importlib.import_module(f"{__name__}.{module}")
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return sorted(__all__)
