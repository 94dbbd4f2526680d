"""Runs of models that are broken on purpose: training, resume, search, export."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config.model import Ablation
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportSettings
from keras_transformer.training import trainer
from tests.training.helpers import Reversal, assert_same_checkpoint, records, remove_checkpoints

pytestmark = pytest.mark.slow

# The others differ in no code that only an export runs.
EXPORTED = ["batch_normalization", "unscaled_attention", "no_feed_forward"]
NAMES = [name for name in get_args(Ablation) if name != "none"]


def _train(reversal: Reversal, name: str, path: Path, **train: object) -> Run:
    config = reversal(max_steps=4, ema_decay=0.5, average=2, keep_best=2, **train)
    model = dataclasses.replace(config.model, ablation=name)
    return trainer.train(dataclasses.replace(config, model=model), path)


@pytest.mark.parametrize("name", NAMES)
def test_trains_translates_and_exports(name: str, reversal: Reversal, tmp_path: Path) -> None:
    run = _train(reversal, name, tmp_path / "run", dev_sentences=3)
    found = records(run)
    assert [record["step"] for record in found] == [2, 4, 4, 4]  # two averages at the end
    assert all(np.isfinite(record["dev_loss"]) for record in found)
    assert f"model.ablation {name}" in (run.path / "log.txt").read_text()
    lines = ["a b c", "d e f g"]
    translator = Translator.from_run(run.path)
    expected = [item.text for item in translator.translate(lines)]
    if name not in EXPORTED:
        return
    log: list[str] = []
    folder = export(run, run.config.search, tmp_path / "model", ExportSettings(), log.append)
    assert any(f"model.ablation {name}" in line for line in log)
    signature = tf.saved_model.load(str(folder)).signatures["translate"]
    texts = signature(text=tf.constant(lines))["translation"].numpy()
    assert [text.decode() for text in texts] == expected


@pytest.mark.parametrize("checkpointing", [False, True])
def test_statistics_survive_a_resume(
    checkpointing: bool, reversal: Reversal, tmp_path: Path
) -> None:
    options = {
        "gradient_checkpointing": checkpointing,
        "micro_batch_tokens": 60,
        "precision": "bfloat16" if checkpointing else "float32",
    }
    run = _train(reversal, "batch_normalization", tmp_path / "run", **options)
    copy = Run.open(shutil.copytree(run.path, tmp_path / "copy"))
    remove_checkpoints(copy, 4)
    trainer.train(copy.config, copy.path, resume=True)
    assert_same_checkpoint(copy.path, run.path)
    model = run.model()
    statistics = [weight.numpy() for weight in model.non_trainable_weights]
    assert len(statistics) == 10
    for weight in statistics:  # no longer 0 or 1
        assert np.isfinite(weight).all()
        assert (weight != np.round(weight)).all()
    assert records(run)[-1]["dev_loss"] == pytest.approx(records(copy)[-1]["dev_loss"], rel=1e-6)
