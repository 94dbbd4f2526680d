"""Runs that are killed, preempted, or lose a worker."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from keras_transformer.config import Config, to_dict
from keras_transformer.run import Run
from keras_transformer.training import trainer
from keras_transformer.training.reporting.run_log import RunLog

Reversal = Callable[..., Config]
Checkpoint = Callable[[Path], dict[str, np.ndarray]]

# Everything that a run remembers: dropout, averages, patience, the best so far, the data order.
REMEMBERS = {
    "max_steps": 120,
    "checkpoint_every": 3,
    "average": 3,
    "ema_decay": 0.9,
    "keep_best": 3,
    "best_by": "loss",
    "patience": 30,
    "dev_sentences": 2,
    "log_every": 1,
}


def train(config: Config, path: Path, resume: bool, devices: str) -> None:
    """In a process of its own."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    trainer.train(Run.open(path).config if resume else config, path, resume, devices)


def start(config: Config, path: Path, devices: str = "cpu") -> Any:
    """Begin the run, or go on with it. The server has TensorFlow imported, but not started."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow_text", "keras_transformer.training.trainer"])
    process = context.Process(target=train, args=(config, path, path.exists(), devices))
    process.start()
    return process


def finish(config: Config, path: Path, devices: str = "cpu") -> None:
    process = start(config, path, devices)
    process.join(300)
    assert process.exitcode == 0


def with_steps(config: Config, steps: int) -> Config:
    return dataclasses.replace(config, train=dataclasses.replace(config.train, max_steps=steps))


def wait_for_step(path: Path, after: int, process: Any) -> None:
    """Until a line of progress is there beside the ``after`` ones of before."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.is_alive():
        if lines(path) > after:
            return
        time.sleep(0.01)
    assert not process.is_alive(), "no step in two minutes"


def lines(path: Path) -> int:
    log = path / "log.txt"
    return log.read_text(encoding="utf-8").count("\n") if log.exists() else 0


def assert_same(ours: Path, theirs: Path, last_checkpoint: Checkpoint) -> None:
    """All that two runs have kept, to the last bit."""
    one, other = last_checkpoint(ours), last_checkpoint(theirs)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    first, second = (
        [
            {name: value for name, value in record.items() if "second" not in name}
            for record in RunLog(path).records()
        ]
        for path in (ours, theirs)
    )
    whole = {"train_loss", "train_perplexity", "gradient_norm"}  # of a stretch without a stop
    for one_record, other_record in zip(first, second, strict=True):
        same = (one_record.keys() & other_record.keys()) - whole
        assert {"step", "dev_loss", "dev_bleu"} <= same
        assert {name: one_record[name] for name in same} == {
            name: other_record[name] for name in same
        }
    kept = [{path.name for path in (run / "best").iterdir()} for run in (ours, theirs)]
    assert kept[0] == kept[1]
    weights = [weights_of(run / "best.weights.h5") for run in (ours, theirs)]
    for one_weight, other_weight in zip(*weights, strict=True):
        np.testing.assert_array_equal(one_weight, other_weight)


def weights_of(path: Path) -> list[np.ndarray]:
    import h5py

    found: list[np.ndarray] = []

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found.append(item[()])

    with h5py.File(path) as file:
        file.visititems(add)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "kills"), [("cpu", 20), ("cpu:2", 3)])
def test_killed_at_any_moment_it_ends_as_if_never_stopped(
    reversal: Reversal, tmp_path: Path, last_checkpoint: Checkpoint, devices: str, kills: int
) -> None:
    config = reversal(**REMEMBERS)
    finish(config, tmp_path / "whole", devices)
    rng = random.Random(f"{devices}")
    run = tmp_path / "killed"
    done = 0
    while done < kills:
        process = start(config, run, devices)
        # One in four before its first step, the others at any moment of what follows it:
        # a step, a look at the dev set, a checkpoint.
        if rng.random() < 0.25:
            time.sleep(rng.uniform(0.5, 4.0))
        else:
            wait_for_step(run, lines(run) + 1, process)
            time.sleep(rng.uniform(0.0, 0.5))
        if not process.is_alive():
            break
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        done += 1
    assert done == kills, f"the run ended after {done} kills; it should be longer"
    finish(config, run, devices)
    assert_same(run, tmp_path / "whole", last_checkpoint)


def command(config: Config, run: Path, *words: str) -> list[str]:
    file = run.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(to_dict(config)), encoding="utf-8")
    module = [sys.executable, "-m", "keras_transformer.train"]
    return [*module, "--config", str(file), "--run", str(run), *words]


def test_preempted_it_saves_and_leaves_in_time(
    reversal: Reversal, tmp_path: Path, last_checkpoint: Checkpoint
) -> None:
    remembers = REMEMBERS | {"max_steps": 2000, "patience": 0, "checkpoint_every": 500}
    run = tmp_path / "run"
    process = subprocess.Popen(
        command(reversal(**remembers), run), stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if line.startswith("step 3/"):
            break
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    told = process.communicate(timeout=60)[1]
    assert time.monotonic() - began < 10
    assert process.returncode == 143
    step = int(last_checkpoint(run)["optimizer/0/.ATTRIBUTES/VARIABLE_VALUE"])
    assert 3 <= step < 500
    assert f"stopped by SIGTERM; saved at step {step}, --resume goes on from there" in told
    config = with_steps(Run.open(run).config, step + 5)
    trainer.train(config, run, resume=True)
    whole = tmp_path / "whole"
    trainer.train(with_steps(reversal(**remembers), step + 5), whole)
    assert_same(run, whole, last_checkpoint)


@pytest.mark.slow
def test_a_worker_that_is_killed_takes_all_back_to_the_last_checkpoint(
    reversal: Reversal, tmp_path: Path
) -> None:
    config = reversal(**REMEMBERS | {"max_steps": 400, "patience": 0})
    run = tmp_path / "run"
    process = subprocess.Popen(
        command(config, run, "--workers", "2", "--restarts", "1"),
        stderr=subprocess.PIPE,
        text=True,
    )
    told = ""
    for line in process.stderr:
        told += line
        if line.startswith("step 30/"):
            [_, second] = children(process.pid)
            os.kill(second, signal.SIGKILL)
            break
    told += process.communicate(timeout=400)[1]
    assert process.returncode == 0, told[-2000:]
    assert "a worker ended with status 137; all begin again from the last checkpoint" in told
    assert "going on after step " in told
    assert "400/400" in told
    steps = [record["step"] for record in RunLog(run).records()]
    assert steps == [*range(3, 400, 3), 400, 400, 400]


def children(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in text.split()]
