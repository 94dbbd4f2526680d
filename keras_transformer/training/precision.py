"""Choice of ``train.precision`` for the devices of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from keras_transformer.config import Config
from keras_transformer.config.train import TrainingPrecision
from keras_transformer.devices import best_precision, gpu_details
from keras_transformer.run import Run


def choose_precision(config: Config, log: Callable[[str], None]) -> Config:
    """Replace ``train.precision auto`` by the fastest precision of the visible devices.

    Args:
        config: Of a run to create; any other precision stays.
        log: Called with a line about the choice.
    """
    if config.train.precision != "auto":
        return config
    precision, reason = best_precision(gpu_details())
    log(f"train.precision auto: {precision} ({reason})")
    return _with_precision(config, precision)


def with_precision_of(run: Path, config: Config) -> Config:
    """Replace ``train.precision auto`` by the recorded choice of a run that is resumed."""
    if config.train.precision != "auto":
        return config
    return _with_precision(config, Run.open(run).config.train.precision)


def _with_precision(config: Config, precision: TrainingPrecision) -> Config:
    return dataclasses.replace(config, train=dataclasses.replace(config.train, precision=precision))
