from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest

from keras_transformer.config import TrainConfig
from keras_transformer.training.reporting.progress import (
    NotFiniteError,
    Progress,
    check_finite,
    duration,
    perplexity,
)
from keras_transformer.training.reporting.run_log import RunLog, TrainingError
from keras_transformer.training.stopping import StopRequest


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.6, "0:01:00"), (3723, "1:02:03"), (360000, "100:00:00")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_perplexity() -> None:
    assert perplexity(0.0) == 1.0
    assert perplexity(math.log(8)) == pytest.approx(8)
    assert perplexity(1e6) == math.inf


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_bad_loss_names_the_step(loss: float) -> None:
    with pytest.raises(TrainingError, match=f"the loss is {loss} at step 12;"):
        check_finite(loss, 12)


class Steps:
    """Drives a callback as `fit` does, with scripted losses and ten tokens a step."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        iterations = keras.Variable(0, dtype="int64", trainable=False)
        self.model = SimpleNamespace(
            optimizer=SimpleNamespace(iterations=iterations, learning_rate=0.1),
            stop_training=False,
        )
        progress._model = self.model
        progress.on_train_begin()
        progress.on_epoch_begin(0)

    def take(self, loss: float, norm: float = 1.0, tokens: float = 10.0) -> None:
        self.model.optimizer.iterations.assign_add(1)
        logs = {"loss": loss, "log_loss": loss, "source_tokens": 2 * tokens}
        self.progress.on_train_batch_end(0, logs | {"target_tokens": tokens, "gradient_norm": norm})


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., Steps]:
    def start(request: StopRequest | None = None, agreed: Any = list, **config: Any) -> Steps:
        run_log = RunLog(tmp_path)
        request = request or StopRequest()
        return Steps(Progress(TrainConfig(**config), run_log, 5.0, 2, request, agreed))

    return start


@pytest.mark.parametrize(
    ("loss", "norm", "message"),
    [
        (math.nan, 1.0, "the loss is nan at step 3, batch 1 of epoch 2;"),
        (3.0, math.inf, "the norm of the gradients is inf at step 3, batch 1 of epoch 2;"),
    ],
)
def test_a_bad_step_stops_at_once_and_names_the_batch(
    steps: Callable[..., Steps], loss: float, norm: float, message: str
) -> None:
    run = steps(log_every=50)
    run.take(3.0)
    run.take(3.0)
    with pytest.raises(NotFiniteError, match=message) as caught:
        run.take(loss, norm)
    assert caught.value.step == 3


def test_lines_come_every_so_many_steps_and_the_last_step_stops(
    steps: Callable[..., Steps], capsys: pytest.CaptureFixture[str]
) -> None:
    run = steps(log_every=2, max_steps=3)
    run.take(1.0, norm=2.5, tokens=10)
    assert capsys.readouterr().err == ""
    run.take(4.0, norm=0.5, tokens=20)
    # (10 * 1 + 20 * 4) / 30 = 3
    assert capsys.readouterr().err.startswith(
        "step 2/3  loss 3.000  perplexity 20.09  rate 1.00e-01  gradient 2.50  "
    )
    assert not run.model.stop_training
    run.take(3.0)
    assert run.model.stop_training


def test_with_a_bar_lines_of_progress_go_to_the_log_alone(
    steps: Callable[..., Steps], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    class ProgressBar:
        def moved_to(self, step: int, numbers: Callable[[], str]) -> None:
            shown.append((step, numbers()))

    run = steps(log_every=2, max_steps=3)
    run.progress.bar = ProgressBar()
    run.take(1.0, tokens=10)
    run.take(4.0, tokens=20)
    assert capsys.readouterr().err == ""
    assert " step 2/3  loss 3.000  perplexity 20.09  " in (tmp_path / "log.txt").read_text()
    assert [step for step, _ in shown] == [1, 2]
    assert "loss 3.000  perplexity 20.09  " in shown[1][1]  # of both, before they are told


def test_who_looks_is_told_the_numbers_of_the_last_steps(tmp_path: Path) -> None:
    seen: list[tuple[int, dict[str, float]]] = []
    run = Steps(
        Progress(
            TrainConfig(log_every=2),
            RunLog(tmp_path),
            5.0,
            2,
            StopRequest(),
            seen=lambda step, values: seen.append((step, values)),
        )
    )
    for loss in (1.0, 3.0, 5.0, 7.0):
        run.take(loss)
    assert [(step, values["train_loss"]) for step, values in seen] == [(2, 2.0), (4, 6.0)]
    assert seen[0][1]["learning_rate"] == 0.1
    assert 5.0 <= seen[0][1]["seconds"] < 6.0


def test_time_counts_earlier_parts_and_stops(steps: Callable[..., Steps]) -> None:
    run = steps(max_minutes=0.1)  # six seconds, of which five are over
    run.take(3.0)
    assert 5.0 <= run.progress.seconds < 6.0
    assert not run.model.stop_training
    late = steps(max_minutes=0.08)
    late.take(3.0)
    assert late.model.stop_training
    assert not late.progress.stopped  # by no signal: the dev set is looked at


def test_a_signal_stops_after_the_step(steps: Callable[..., Steps]) -> None:
    request = StopRequest()
    run = steps(request)
    assert request.at_once  # there is nothing to save yet
    run.take(3.0)
    assert not request.at_once
    request.signal = 15
    run.take(3.0)
    assert run.progress.stopped
    assert run.model.stop_training


def test_what_another_worker_wants_counts(steps: Callable[..., Steps]) -> None:
    run = steps(agreed=lambda own: [own[0], True])
    run.take(3.0)
    assert run.progress.stopped


def test_speed_is_that_of_the_whole_stretch(
    steps: Callable[..., Steps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where a line of progress came in between."""
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    run = steps(log_every=2)
    for _ in range(3):
        clock[0] += 4.0
        run.take(3.0, tokens=10)
    values = run.progress.interval.values()
    assert values["source_tokens_per_second"] == 60 / 12
    assert values["target_tokens_per_second"] == round(30 / 12)
    assert values["tokens_per_second"] == round(90 / 12)
    assert values["seconds_per_step"] == 4.0
    run.progress.on_epoch_begin(1)
    assert run.progress.interval.values() == {}
