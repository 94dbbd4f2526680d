"""Fixtures for tests of training: a tiny corpus of reversed letters, and runs on it."""

from __future__ import annotations

import dataclasses
import multiprocessing
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.config import Config, from_dict
from keras_transformer.optional_dependencies import unusable
from keras_transformer.run import Run
from keras_transformer.training import trainer
from keras_transformer.training.reporting import curves
from tests.training.helpers import Reversal, remove_checkpoints


@pytest.fixture(scope="session")
def reversal(tmp_path_factory: pytest.TempPathFactory) -> Reversal:
    """Write a corpus whose targets are the reversed sources; return configurations for it."""
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
                "dev_sentences": 0,
            },
        }
    )

    def make_config(**train: object) -> Config:
        return dataclasses.replace(config, train=dataclasses.replace(config.train, **train))

    return make_config


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace drawing of curves, which takes longer than training, by a list of the runs."""
    runs: list[Path] = []
    monkeypatch.setattr(curves, "write", lambda path, *rest: runs.append(path))
    return runs


# Runs shared by several tests; a test that changes one uses a copy.


@pytest.fixture(scope="session")
def trained(reversal: Reversal, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of six steps without a stop and without BLEU."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(curves, "write", lambda path, *rest: None)
        return trainer.train(reversal(), tmp_path_factory.mktemp("runs") / "trained")


@pytest.fixture(scope="session")
def complete(reversal: Reversal, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of four steps with BLEU, EMA, clipping, several best weights, and TensorBoard if
    installed. Each step has a checkpoint, and all of them are kept.
    """
    config = reversal(
        max_steps=4,
        checkpoint_every=1,
        average=3,
        dev_sentences=5,
        best_by="loss",
        ema_decay=0.5,
        keep_best=2,
        clip_norm=0.5,
        tensorboard=not unusable(["tensorboard", "matplotlib"]),
    )
    return trainer.train(config, tmp_path_factory.mktemp("runs") / "complete")


@pytest.fixture(scope="session")
def complete_resumed(complete: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run `complete`, resumed as if killed before the checkpoint of step 3."""
    copy = Run.open(shutil.copytree(complete.path, tmp_path_factory.mktemp("runs") / "resumed"))
    remove_checkpoints(copy, 3, 4)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(curves, "write", lambda path, *rest: None)
        return trainer.train(copy.config, copy.path, resume=True)


@pytest.fixture
def trained_copy(trained: Run, tmp_path: Path) -> Run:
    """A copy of `trained` that a test may change."""
    return Run.open(shutil.copytree(trained.path, tmp_path / "copy"))


@pytest.fixture
def complete_copy(complete: Run, tmp_path: Path) -> Run:
    """A copy of `complete` that a test may change."""
    return Run.open(shutil.copytree(complete.path, tmp_path / "copy"))


@pytest.fixture(scope="session")
def processes() -> Any:
    """Context of processes that start with TensorFlow imported, but without devices set up."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow_text", "keras_transformer.training.trainer"])
    return context
