"""Training of the recurrent model by the same code as the Transformer's."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.config import Config, ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run
from keras_transformer.training import trainer
from tests.training.helpers import (
    Reversal,
    assert_same_checkpoint,
    records,
    remove_checkpoints,
    without_times,
)

pytestmark = pytest.mark.slow


def _recurrent(config: Config, **fields: object) -> Config:
    options = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "dropout": 0.1}
    model = ModelConfig(architecture="recurrent", **(options | fields))
    return dataclasses.replace(config, model=model)


@pytest.mark.parametrize("options", [{"micro_batch_tokens": 100}, {"precision": "bfloat16"}])
def test_a_resumed_run_equals_one_without_a_stop(
    options: dict[str, object], reversal: Reversal, tmp_path: Path
) -> None:
    config = _recurrent(reversal(ema_decay=0.5, clip_norm=0.5, **options), decoder_layers=2)
    run = trainer.train(config, tmp_path / "run")
    copy = Run.open(shutil.copytree(run.path, tmp_path / "copy"))
    remove_checkpoints(copy, 4, 6)
    trainer.train(copy.config, copy.path, resume=True)
    assert_same_checkpoint(copy.path, run.path)
    assert without_times(records(copy)) == without_times(records(run))


def test_devices_and_micro_batches_do_not_change_the_loss(
    reversal: Reversal, tmp_path: Path
) -> None:
    losses = []
    for name, options in (("whole", {}), ("parts", {"micro_batch_tokens": 100})):
        config = _recurrent(reversal(max_steps=3, **options), dropout=0.0)
        run = trainer.train(config, tmp_path / name)
        losses.append([record["train_loss"] for record in records(run) if "train_loss" in record])
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_it_learns_a_few_pairs_by_heart(reversal: Reversal, tmp_path: Path) -> None:
    lines = ["a b c", "c b a d", "e f", "g g h a"]
    for side, texts in (("a", lines), ("b", [line[::-1] for line in lines])):
        (tmp_path / f"few.{side}").write_text("".join(f"{text}\n" for text in texts * 10))
    config = _recurrent(
        reversal(max_steps=150, checkpoint_every=150, average=1, learning_rate_factor=0.2),
        d_model=32,
        dropout=0.0,
    )
    few = str(tmp_path / "few")
    data = dataclasses.replace(config.data, train=few, dev=few, vocabulary_size=300)
    run = trainer.train(dataclasses.replace(config, data=data), tmp_path / "run")
    translated = Translator.from_run(run.path).translate(lines, attention=True)
    assert [translation.text for translation in translated] == [line[::-1] for line in lines]
    for translation in translated:
        assert translation.attention is not None
        np.testing.assert_allclose(translation.attention.weights.sum(axis=1), 1.0, atol=1e-5)
