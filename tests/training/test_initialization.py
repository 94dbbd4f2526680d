"""Fine-tuning: a new run from the weights and the tokenizer of another."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from keras_transformer.config import Config, ConfigError
from keras_transformer.run import Run, RunError
from keras_transformer.training import trainer
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.initialization import load_initial_weights
from keras_transformer.training.parts import TrainingParts, build_parts
from keras_transformer.training.reporting.run_log import RunLog
from tests.training.helpers import (
    assert_same_checkpoint,
    records,
    remove_checkpoints,
    with_train,
    without_times,
)

ROOT = Path(__file__).parents[2]


def parts_of(run: Run) -> TrainingParts:
    prepared = run.prepared(lambda line: None)
    return build_parts(run, prepared, RunLog(run.path), Distribution("cpu"))


@pytest.fixture
def created(trained: Run, tmp_path: Path) -> Run:
    """A run that starts from `trained`, before its first step."""
    config = with_train(trained.config, seed=5, max_steps=4)
    return Run.create(tmp_path / "new", config, lambda line: None, init_from=trained)[0]


def test_a_new_run_has_the_weights_and_the_tokenizer_of_the_other(
    trained: Run, created: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert created.tokenizer().fingerprint == trained.tokenizer().fingerprint
    assert created.initial_weights.read_bytes() == trained.best_weights.read_bytes()
    assert created.origin() == str(trained.path)
    parts = parts_of(created)

    load_initial_weights(parts)

    for ours, theirs in zip(parts.model.weights, trained.model().weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert parts.model.optimizer.iterations.numpy() == parts.state.step == 0
    assert all((moment.numpy() == 0).all() for moment in parts.model.optimizer.variables[2:])
    # Equal to the last score of the other run, on the same dev set.
    loss = min(record["dev_loss"] for record in records(trained))
    line = f"initial weights: those of {trained.path}, dev loss {loss:.2f}, dev perplexity "
    assert line in capsys.readouterr().err


def test_the_origin_survives_a_session(created: Run, trained: Run) -> None:
    created.write_versions({"devices": "1 x CPU"})
    assert created.origin() == str(trained.path)
    assert created.last_session() == {"devices": "1 x CPU"}
    assert trained.origin() == ""


@pytest.mark.slow
def test_weights_in_float16_are_loaded(created: Run, trained: Run) -> None:
    with h5py.File(created.initial_weights, "a") as file:
        names: list[str] = []
        file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        for name in names:
            values = file[name][()].astype(np.float16)
            del file[name]
            file[name] = values
    parts = parts_of(created)

    load_initial_weights(parts)

    for ours, theirs in zip(parts.model.weights, trained.model().weights, strict=True):
        assert ours.dtype == "float32"
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy().astype(np.float16))


@pytest.mark.slow
def test_missing_and_other_weights_are_refused(created: Run) -> None:
    parts = parts_of(created)
    created.initial_weights.write_bytes(b"no weights")
    with pytest.raises(RunError, match="initial.weights.h5: cannot be loaded"):
        load_initial_weights(parts)
    created.initial_weights.unlink()
    with pytest.raises(RunError, match="initial.weights.h5: cannot be loaded: .*No such file"):
        load_initial_weights(parts)


def test_runs_that_cannot_start_another_are_refused(trained: Run, tmp_path: Path) -> None:
    config = trained.config

    def create(path: Path, config: Config, source: Run) -> None:
        Run.create(path, config, lambda line: None, init_from=source)

    with pytest.raises(RunError, match="expected another run than the new one"):
        create(trained.path.parent / "." / trained.path.name, config, trained)
    other = dataclasses.replace(config, model=dataclasses.replace(config.model, d_ff=8))
    with pytest.raises(
        ConfigError, match=r"model.d_ff: expected 32, got 8. .* come from .*trained"
    ):
        create(tmp_path / "new", other, trained)
    untrained = Run.open(shutil.copytree(trained.path, tmp_path / "untrained"))
    untrained.best_weights.unlink()
    with pytest.raises(RunError, match="untrained: no best.weights.h5 yet"):
        create(tmp_path / "new", config, untrained)
    untrained.best_weights.write_bytes(trained.best_weights.read_bytes()[:5_000])
    with pytest.raises(RunError, match="untrained.best.weights.h5: cannot be loaded"):
        create(tmp_path / "new", config, untrained)
    with pytest.raises(RunError, match="init_from: expected a new run"):
        trainer.train(config, trained.path, resume=True, init_from=untrained.path)
    with pytest.raises(RunError, match="expected a run folder with config.yaml, found none"):
        trainer.train(config, tmp_path / "new", init_from=tmp_path / "none")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one_without_the_other_run(
    trained: Run, tmp_path: Path
) -> None:
    """With EMA; resumed before the first checkpoint and after it, the other run removed."""
    source = Run.open(shutil.copytree(trained.path, tmp_path / "source"))
    model = dataclasses.replace(source.config.model, dropout=0.2, attention="blockwise")
    config = dataclasses.replace(source.config, model=model)
    config = with_train(config, seed=5, max_steps=4, ema_decay=0.5)
    whole = trainer.train(config, tmp_path / "whole", init_from=source.path)
    assert (whole.path / "log.txt").read_text().count("initial weights: those of") == 1
    shutil.rmtree(source.path)

    for name, removed in (("from 0", (2, 4)), ("from 2", (4,))):
        copy = Run.open(shutil.copytree(whole.path, tmp_path / name))
        remove_checkpoints(copy, *removed)
        lines = (copy.path / "metrics.jsonl").read_text().splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["step"] not in removed]
        (copy.path / "metrics.jsonl").write_text("".join(kept))
        copy.best_weights.unlink()
        trainer.train(copy.config, copy.path, resume=True)
        assert_same_checkpoint(copy.path, whole.path)
        assert without_times(records(copy)) == without_times(records(whole))


@pytest.mark.slow
def test_several_devices_start_from_the_same_weights(
    trained: Run, tmp_path: Path, processes: Any
) -> None:
    """Losses of the first step, which are those of the other run's weights, are equal."""
    config = dataclasses.replace(
        trained.config,
        model=dataclasses.replace(trained.config.model, dropout=0.0, attention_dropout=0.0),
    )
    config = with_train(config, max_steps=2)
    losses = []
    for devices in ("cpu:1", "cpu:2"):
        path = tmp_path / devices.replace(":", "")
        process = processes.Process(
            target=trainer.train, args=(config, path, False, devices, False, trained.path)
        )
        process.start()
        process.join()
        assert process.exitcode == 0
        log = (path / "steps.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["train_loss"] for line in log])
        assert "initial weights: those of" in (path / "log.txt").read_text()
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.mark.slow
def test_several_workers_start_from_the_same_weights(trained: Run, tmp_path: Path) -> None:
    words = [
        *("--run", "new", "--init_from", str(trained.path), "--workers", "2", "--restarts", "1"),
        *("--train.max_steps", "2", "--train.seed", "3"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "keras_transformer.train", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    log = (tmp_path / "new" / "log.txt").read_text()
    assert log.count(f"initial weights: those of {trained.path}, dev loss ") == 1
    assert "2 x CPU" in (tmp_path / "new" / "versions.json").read_text()
