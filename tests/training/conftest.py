"""A corpus of reversed letters, small enough to train on in seconds, and a run on it."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import Config, from_dict
from keras_transformer.run import Run
from keras_transformer.training import trainer


@pytest.fixture(scope="session")
def reversal(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Config]:
    """Write a corpus whose targets are the sources reversed; give a configuration for it."""
    rng = random.Random(0)
    folder = tmp_path_factory.mktemp("reversal")

    def write(name: str, count: int) -> str:
        lines = [" ".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(count)]
        (folder / f"{name}.a").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{name}.b").write_text("".join(f"{line[::-1]}\n" for line in lines))
        return str(folder / name)

    config = from_dict(
        {
            "model": {
                "encoder_layers": 1,
                "decoder_layers": 1,
                "d_model": 16,
                "heads": 2,
                "d_ff": 32,
                "dropout": 0.1,
                "attention_dropout": 0.1,
            },
            "data": {
                "train": write("train", 300),
                "dev": write("dev", 20),
                "source": "a",
                "target": "b",
                "vocabulary_size": 300,
            },
            "train": {
                "max_steps": 6,
                "batch_tokens": 200,
                "warmup_steps": 20,
                "checkpoint_every": 2,
                "average": 2,
                "log_every": 1,
                "dev_sentences": 5,
            },
        }
    )

    def configured(**train: object) -> Config:
        return dataclasses.replace(config, train=dataclasses.replace(config.train, **train))

    return configured


@pytest.fixture(scope="session")
def trained(reversal: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Six steps without a stop. Several tests read it; what changes it takes a copy."""
    return trainer.train(reversal(), tmp_path_factory.mktemp("runs") / "trained")


@pytest.fixture(scope="session")
def last_checkpoint() -> Callable[[Path], dict[str, np.ndarray]]:
    """Everything in the newest checkpoint of a run but the time that it took."""

    def read(path: Path) -> dict[str, np.ndarray]:
        steps = [int(file.stem[5:]) for file in (path / "checkpoints").glob("step-*.index")]
        reader = tf.train.load_checkpoint(str(path / "checkpoints" / f"step-{max(steps)}"))
        names = [name for name in reader.get_variable_to_shape_map() if "ATTRIBUTES" in name]
        return {name: reader.get_tensor(name) for name in names if "seconds" not in name}

    return read


@pytest.fixture
def copied(trained: Run, tmp_path: Path) -> Run:
    """A copy of that run, to change."""
    return Run.open(shutil.copytree(trained.path, tmp_path / "copied"))
