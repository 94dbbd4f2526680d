"""Runs that are killed, are preempted or lose a worker."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import resource
import signal
import subprocess
import sys
import termios
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
from tests.training.helpers import (
    Reversal,
    assert_same_checkpoint,
    last_checkpoint,
    with_train,
    without_times,
)

# Covers all state of a run: dropout, averages, patience, best score, order of the data.
STATEFUL = {
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
    """Train in a process."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    trainer.train(Run.open(path).config if resume else config, path, resume, devices)


def start(processes: Any, config: Config, path: Path, devices: str) -> Any:
    """Start or resume the run in a process."""
    process = processes.Process(target=train, args=(config, path, path.exists(), devices))
    process.start()
    return process


def finish(processes: Any, config: Config, path: Path, devices: str) -> None:
    process = start(processes, config, path, devices)
    process.join(300)
    assert process.exitcode == 0


def wait_for_step(path: Path, after: int, process: Any) -> None:
    """Wait for a line of progress after the first ``after`` lines."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.is_alive():
        if lines(path) > after:
            return
        time.sleep(0.01)
    assert not process.is_alive(), "no step in two minutes"


def lines(path: Path) -> int:
    log = path / "log.txt"
    return log.read_text(encoding="utf-8").count("\n") if log.exists() else 0


def assert_same(ours: Path, theirs: Path) -> None:
    """Check that the results of two runs are bit-identical."""
    assert_same_checkpoint(ours, theirs)
    first, second = (without_times(RunLog(path).records()) for path in (ours, theirs))
    whole = {"train_loss", "train_perplexity", "gradient_norm"}  # means of a whole interval
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
def test_a_run_killed_at_any_moment_ends_as_if_never_stopped(
    reversal: Reversal, tmp_path: Path, processes: Any, devices: str, kills: int
) -> None:
    config = reversal(**STATEFUL)
    finish(processes, config, tmp_path / "whole", devices)
    rng = random.Random(f"{devices}")
    run = tmp_path / "killed"
    done = 0
    while done < kills:
        process = start(processes, config, run, devices)
        # One kill in four is before the first step, the others at any later moment: in a step,
        # in the evaluation of the dev set, in a checkpoint.
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
    finish(processes, config, run, devices)
    assert_same(run, tmp_path / "whole")


def command(config: Config, run: Path, *words: str) -> list[str]:
    file = run.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(to_dict(config)), encoding="utf-8")
    module = [sys.executable, "-m", "keras_transformer.train"]
    return [*module, "--config", str(file), "--run", str(run), *words]


@pytest.mark.slow
def test_a_preempted_run_saves_and_exits_in_time(reversal: Reversal, tmp_path: Path) -> None:
    stateful = STATEFUL | {"max_steps": 2000, "patience": 0, "checkpoint_every": 500}
    run = tmp_path / "run"
    process = subprocess.Popen(
        command(reversal(**stateful), run), stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if line.startswith("step 3/"):
            break
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    log = process.communicate(timeout=60)[1]
    assert time.monotonic() - began < 10
    assert process.returncode == 143
    step = int(last_checkpoint(run)["optimizer/0/.ATTRIBUTES/VARIABLE_VALUE"])
    assert 3 <= step < 500
    assert f"stopped by SIGTERM; saved at step {step}, continue with --resume" in log
    config = with_train(Run.open(run).config, max_steps=step + 5)
    trainer.train(config, run, resume=True)
    whole = tmp_path / "whole"
    trainer.train(with_train(reversal(**stateful), max_steps=step + 5), whole)
    assert_same(run, whole)


class Terminal:
    """A terminal in which a command runs as in a window.

    Args:
        words: The command.
        prepare: Called in its process before it starts.
    """

    def __init__(self, words: list[str], prepare: Callable[[], None] = lambda: None) -> None:
        self._screen, inner = pty.openpty()

        def begin() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that closing it sends SIGHUP
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            prepare()

        self.process = subprocess.Popen(
            words, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, preexec_fn=begin
        )
        os.close(inner)

    def close(self) -> None:
        """Close the window."""
        os.close(self._screen)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_closed_terminal_ends_the_run_saved(
    reversal: Reversal, tmp_path: Path, workers: int
) -> None:
    run = tmp_path / "run"
    config = reversal(**STATEFUL | {"max_steps": 4000, "patience": 0, "checkpoint_every": 2000})
    terminal = Terminal(command(config, run, "--workers", str(workers)))
    wait_for_text(run, "step 3/", terminal.process)
    terminal.close()
    assert terminal.process.wait(60) == 128 + signal.SIGHUP
    step = int(last_checkpoint(run)["optimizer/0/.ATTRIBUTES/VARIABLE_VALUE"])
    assert 3 <= step < 2000
    log = (run / "log.txt").read_text(encoding="utf-8")
    assert f"stopped by SIGHUP; saved at step {step}, continue with --resume" in log


@pytest.mark.slow
def test_under_nohup_the_run_goes_on_without_its_terminal(
    reversal: Reversal, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    config = reversal(**STATEFUL | {"max_steps": 300, "patience": 0, "checkpoint_every": 100})
    terminal = Terminal(command(config, run), lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_text(run, "step 3/", terminal.process)
    terminal.close()  # each line and each move of the progress bar fails from now on
    assert terminal.process.wait(300) == 0
    log = (run / "log.txt").read_text(encoding="utf-8")
    assert "step 300/300" in log
    assert "done: 300 steps" in log


@pytest.mark.slow
def test_a_run_goes_on_without_the_reader_of_its_log(reversal: Reversal, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = reversal(**STATEFUL | {"max_steps": 100, "patience": 0, "checkpoint_every": 50})
    process = subprocess.Popen(command(config, run), stderr=subprocess.PIPE, text=True)
    next(line for line in process.stderr if line.startswith("step 3/"))
    process.stderr.close()  # as by `| head`
    assert process.wait(300) == 0
    assert "done: 100 steps" in (run / "log.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_limit_on_processor_time_ends_the_run_saved(reversal: Reversal, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = reversal(
        **STATEFUL | {"max_steps": 100_000, "patience": 0, "checkpoint_every": 99_999}
    )
    process = subprocess.Popen(
        command(config, run),
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (40, 120)),
    )
    assert process.wait(300) == 128 + signal.SIGXCPU
    assert int(last_checkpoint(run)["optimizer/0/.ATTRIBUTES/VARIABLE_VALUE"]) > 0


def wait_for_text(run: Path, text: str, process: Any) -> None:
    """Wait until log.txt contains a text."""
    deadline = time.monotonic() + 120
    log = run / "log.txt"
    while time.monotonic() < deadline and process.poll() is None:
        if log.exists() and text in log.read_text(encoding="utf-8"):
            return
        time.sleep(0.05)
    raise AssertionError(f"{text!r} did not appear")


@pytest.mark.slow
def test_a_killed_worker_restarts_all_from_the_last_checkpoint(
    reversal: Reversal, tmp_path: Path
) -> None:
    config = reversal(**STATEFUL | {"max_steps": 400, "patience": 0})
    run = tmp_path / "run"
    process = subprocess.Popen(
        command(config, run, "--workers", "2", "--restarts", "1"),
        stderr=subprocess.PIPE,
        text=True,
    )
    log = ""
    for line in process.stderr:
        log += line
        if line.startswith("step 30/"):
            [_, second] = children(process.pid)
            os.kill(second, signal.SIGKILL)
            break
    log += process.communicate(timeout=400)[1]
    assert process.returncode == 0, log[-2000:]
    assert "a worker ended with status 137; " in log
    assert "resuming after step " in log
    assert "400/400" in log
    steps = [record["step"] for record in RunLog(run).records()]
    assert steps == [*range(3, 400, 3), 400, 400, 400]


def children(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in text.split()]
