"""A corpus of reversed letters, small enough to train on in seconds."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from keras_transformer.config import Config, from_dict


@pytest.fixture
def reversal(tmp_path: Path) -> Callable[..., Config]:
    """Write a corpus whose targets are the sources reversed; give a configuration for it."""
    rng = random.Random(0)

    def write(name: str, count: int) -> str:
        lines = [" ".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(count)]
        (tmp_path / f"{name}.a").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / f"{name}.b").write_text("".join(f"{line[::-1]}\n" for line in lines))
        return str(tmp_path / name)

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
