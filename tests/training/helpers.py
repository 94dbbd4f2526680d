"""Helpers for tests that train."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.config import Config
from keras_transformer.run import Run
from keras_transformer.training.reporting.run_log import RunLog

Reversal = Callable[..., Config]
"""Type of the fixture `reversal`: returns its configuration with other fields of ``train``."""


def records(run: Run) -> list[dict[str, Any]]:
    """Return the records of metrics.jsonl."""
    return RunLog(run.path).records()


def steps(run: Run) -> list[int]:
    """Return the steps of these records."""
    return [record["step"] for record in records(run)]


def without_times(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records without times and speeds, which differ between two equal runs."""
    return [
        {name: value for name, value in record.items() if "second" not in name} for record in found
    ]


def with_train(config: Config, **train: object) -> Config:
    """Return the configuration with other fields of ``train``."""
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **train))


def remove_checkpoints(run: Run, *steps: int) -> None:
    """Delete the checkpoints of these steps."""
    for step in steps:
        for path in (run.path / "checkpoints").glob(f"step-{step}.*"):
            path.unlink()


def last_checkpoint(path: Path) -> dict[str, np.ndarray]:
    """Return all tensors in the newest checkpoint of a run except the training time."""
    steps = [int(file.stem[5:]) for file in (path / "checkpoints").glob("step-*.index")]
    reader = tf.train.load_checkpoint(str(path / "checkpoints" / f"step-{max(steps)}"))
    names = [name for name in reader.get_variable_to_shape_map() if "ATTRIBUTES" in name]
    return {name: reader.get_tensor(name) for name in names if "seconds" not in name}


def assert_same_checkpoint(ours: Path, theirs: Path) -> None:
    """Check that the last checkpoints of two runs are bit-identical."""
    one, other = last_checkpoint(ours), last_checkpoint(theirs)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
