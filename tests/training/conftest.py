"""A corpus of reversed letters, small enough to train on in seconds, and a run on it."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

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
                "vocabulary": 300,
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


@pytest.fixture
def copied(trained: Run, tmp_path: Path) -> Run:
    """A copy of that run, to change."""
    return Run.open(shutil.copytree(trained.path, tmp_path / "copied"))
