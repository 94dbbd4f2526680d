"""Devices and libraries of a training session, and what a resumed run says about other ones."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from keras_transformer.run import Run
from keras_transformer.training import trainer
from keras_transformer.training.distribution import Distribution, DistributionError
from keras_transformer.training.errors import TrainingError
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.session import (
    describe_session,
    differences,
    log_session,
    processor,
)
from keras_transformer.training.trainer import Trainer
from tests.training.helpers import Reversal, with_train


def test_differences_by_hand() -> None:
    before = {"devices": "2 x CPU", "cores": 2, "X": "1", "gone": 1}
    now = {"devices": "1 x CPU", "cores": 2, "X": "", "new": 1}
    assert differences(before, before) == ""
    line = differences(before, now)
    assert line.startswith(
        "differs from the last session: devices 2 x CPU, now 1 x CPU; X 1, now not set. The math"
    )
    assert "to the last bit" in line
    assert differences({}, now) == ""  # of a version that stored nothing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 sse4_2 avx512f\n", ["sse4_2", "avx2", "avx512f"]),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", ["asimd", "bf16"]),
        ("", []),
    ],
)
def test_instructions_of_the_processor(tmp_path: Path, text: str, expected: list[str]) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert processor(tmp_path / "cpuinfo").split()[1:] == expected
    assert processor(tmp_path / "missing") == processor(tmp_path / "cpuinfo").split()[0]


def test_the_devices_of_this_process() -> None:
    found = describe_session(Distribution("cpu"))
    assert (found["devices"], found["workers"]) == ("1 x CPU", 1)
    assert found["tensorflow"] == tf.__version__
    assert json.loads(json.dumps(found)) == found


def test_other_devices_are_said_once(trained_copy: Run, capsys: pytest.CaptureFixture[str]) -> None:
    session = trained_copy.last_session()
    assert session["devices"] == "1 x CPU"
    trained_copy.write_versions(session | {"devices": "2 x CPU", "tensorflow": "2.20.0"})
    parts: Any = SimpleNamespace(
        distribution=Distribution("cpu"),
        run=trained_copy,
        run_log=RunLog(trained_copy.path),
        state=SimpleNamespace(step=6),
    )
    log_session(parts)
    said = f"devices 2 x CPU, now 1 x CPU; tensorflow 2.20.0, now {tf.__version__}. The math"
    assert said in capsys.readouterr().err
    assert said in (trained_copy.path / "log.txt").read_text()
    assert trained_copy.last_session() == session
    log_session(parts)
    assert capsys.readouterr().err == ""
    # At the beginning there is no run yet that could have been another one.
    trained_copy.write_versions(session | {"devices": "2 x CPU"})
    parts.state.step = 0
    log_session(parts)
    assert capsys.readouterr().err == ""
    assert trained_copy.last_session() == session


def _train_on_two(config: Any, path: Path) -> None:
    trainer.train(config, path, devices="cpu:2")


@pytest.mark.slow
def test_a_run_of_two_devices_is_resumed_on_one(
    processes: Any, reversal: Reversal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = processes.Process(target=_train_on_two, args=(reversal(max_steps=2), tmp_path / "r"))
    process.start()
    process.join(300)
    assert process.exitcode == 0
    run = Run.open(tmp_path / "r")
    trainer.train(with_train(run.config, max_steps=4), run.path, resume=True)
    assert "devices 2 x CPU, now 1 x CPU" in capsys.readouterr().err


# Failures before the first step


def test_a_failure_before_the_first_step_points_to_resume(
    reversal: Reversal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(self: Trainer, *rest: object) -> None:
        raise TrainingError("out of memory")

    monkeypatch.setattr(Trainer, "__init__", fail)
    with pytest.raises(TrainingError, match="out of memory"):
        trainer.train(reversal(max_steps=1), tmp_path / "run")
    assert "no step yet: start again with --resume, and with --acc" in capsys.readouterr().err


@pytest.mark.slow
def test_without_any_step_a_run_starts_again_with_other_options(
    reversal: Reversal, tmp_path: Path
) -> None:
    Run.create(tmp_path / "run", reversal(max_steps=1), lambda line: None)
    config = reversal(max_steps=1, batch_tokens=100)
    smaller = dataclasses.replace(config, model=dataclasses.replace(config.model, d_ff=8))
    run = trainer.train(smaller, tmp_path / "run", resume=True, accept_changes=True)
    assert Run.open(run.path).config.train.batch_tokens == 100
    assert run.model().count_params()


def test_devices_are_checked_before_the_data_are_prepared(
    reversal: Reversal, tmp_path: Path
) -> None:
    tf.config.list_logical_devices()  # TensorFlow has started, with one CPU device
    with pytest.raises(DistributionError, match="--devices cpu:7: TensorFlow has started with 1"):
        trainer.train(reversal(), tmp_path / "run", devices="cpu:7")
    assert not (tmp_path / "run").exists()


def test_a_gpu_that_is_not_used_is_named(
    reversal: Reversal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*arguments: object) -> None:
        raise TrainingError("enough")

    monkeypatch.setattr(trainer, "unused_gpu", lambda: "this machine has a GPU")
    monkeypatch.setattr(trainer, "open_run", stop)
    for devices, said in (("auto", True), ("cpu", False)):
        with pytest.raises(TrainingError, match="enough"):
            trainer.train(reversal(), tmp_path / "run", devices=devices)
        assert ("this machine has a GPU" in capsys.readouterr().err) == said
