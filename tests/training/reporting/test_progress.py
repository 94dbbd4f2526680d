from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest

from keras_transformer.config import TrainConfig
from keras_transformer.training.errors import NotFiniteError
from keras_transformer.training.reporting.progress import Progress, format_duration
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.state import TrainingState


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.6, "0:01:00"), (3723, "1:02:03"), (360000, "100:00:00")],
)
def test_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


class Steps:
    """Driver of the callback like `fit`, with scripted losses and ten tokens per step."""

    def __init__(self, run_log: RunLog, any_worker: Any = list, report: Any = None, **config: Any):
        iterations = keras.Variable(0, dtype="int64", trainable=False)
        optimizer = SimpleNamespace(iterations=iterations, learning_rate=0.1)
        self.model = SimpleNamespace(optimizer=optimizer, stop_training=False)
        self.state = TrainingState(optimizer, seconds=5.0)
        options = {"report": report} if report else {}
        self.progress = Progress(
            TrainConfig(**config), run_log, self.state, 2, any_worker, **options
        )
        self.progress.set_model(self.model)
        self.progress.on_train_begin()
        self.progress.on_epoch_begin(0)

    def take(self, loss: float, norm: float = 1.0, tokens: float = 10.0) -> None:
        self.model.optimizer.iterations.assign_add(1)
        logs = {"loss": loss, "log_loss": loss, "source_tokens": 2 * tokens}
        self.progress.on_train_batch_end(0, logs | {"target_tokens": tokens, "gradient_norm": norm})


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., Steps]:
    return lambda **options: Steps(RunLog(tmp_path), **options)


@pytest.mark.parametrize(
    ("loss", "norm", "message"),
    [
        (math.nan, 1.0, "the loss is nan at step 3, batch 1 of epoch 2$"),
        (3.0, math.inf, "the norm of the gradients is inf at step 3, batch 1 of epoch 2$"),
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


def test_late_logs_are_those_of_their_step(
    steps: Callable[..., Steps], capsys: pytest.CaptureFixture[str]
) -> None:
    """On a GPU, `fit` has the logs of a step after it has launched the next one."""
    run = steps(log_every=2, max_steps=2)
    logs = [
        {"loss": loss, "log_loss": loss, "source_tokens": 1.0, "target_tokens": 1.0}
        | {"gradient_norm": 1.0}
        for loss in (1.0, 3.0)
    ]
    run.model.waiting_logs = lambda: logs[1:]
    run.progress.on_train_batch_end(0, {})
    assert not run.model.stop_training
    run.progress.on_train_batch_end(1, logs[0])
    assert run.model.stop_training  # the second step is launched, though not reported yet
    assert capsys.readouterr().err == ""
    run.progress.on_epoch_end(0)
    assert capsys.readouterr().err.startswith("step 2/2  loss 2.000  ")


def test_skipped_updates_are_counted_and_are_no_error(
    steps: Callable[..., Steps], tmp_path: Path
) -> None:
    run = steps(log_every=9)
    run.take(2.0)
    run.progress.on_train_batch_end(
        1, {"loss": math.inf, "gradient_norm": math.nan, "loss_scale": 8.0, "skipped": 1.0}
    )
    metrics = run.progress.interval.metrics()
    assert metrics["train_loss"] == 2.0
    assert (metrics["skipped_updates"], metrics["loss_scale"]) == (1, 8.0)
    text = "step 2: gradients above the range of float16; update skipped, loss scale 8 halved"
    assert text in (tmp_path / "log.txt").read_text(encoding="utf-8")


def test_a_line_every_log_interval_and_a_stop_after_the_last_step(
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


def test_with_a_bar_progress_lines_go_to_the_log_only(
    steps: Callable[..., Steps], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    class ProgressBar:
        def update(self, step: int, metrics: Callable[[], str]) -> None:
            shown.append((step, metrics()))

    run = steps(log_every=2, max_steps=3)
    run.progress.bar = ProgressBar()
    run.take(1.0, tokens=10)
    run.take(4.0, tokens=20)
    assert capsys.readouterr().err == ""
    assert " step 2/3  loss 3.000  perplexity 20.09  " in (tmp_path / "log.txt").read_text()
    assert [step for step, _ in shown] == [1, 2]
    assert "loss 3.000  perplexity 20.09  " in shown[1][1]  # of both steps, before they are logged


def test_reports_have_the_metrics_of_the_last_steps(steps: Callable[..., Steps]) -> None:
    reports: list[tuple[int, dict[str, float]]] = []
    run = steps(log_every=2, report=lambda step, metrics: reports.append((step, metrics)))
    for loss in (1.0, 3.0, 5.0, 7.0):
        run.take(loss)
    assert [(step, metrics["train_loss"]) for step, metrics in reports] == [(2, 2.0), (4, 6.0)]
    assert reports[0][1]["learning_rate"] == 0.1
    assert 5.0 <= reports[0][1]["seconds"] < 6.0


def test_time_includes_earlier_sessions_and_is_limited(steps: Callable[..., Steps]) -> None:
    run = steps(max_minutes=0.1)  # six seconds, five of them before the resume
    run.take(3.0)
    assert 5.0 <= run.progress.seconds < 6.0
    assert not run.model.stop_training
    late = steps(max_minutes=0.08)
    late.take(3.0)
    assert late.model.stop_training
    assert not late.state.interrupted  # no signal: the dev set is scored


def test_a_signal_stops_after_the_step(steps: Callable[..., Steps]) -> None:
    run = steps()
    assert not run.state.unsaved
    run.take(3.0)
    assert run.state.unsaved
    run.state.signal = 15
    run.take(3.0)
    assert run.state.interrupted
    assert run.model.stop_training


def test_a_signal_to_another_worker_stops_this_one(steps: Callable[..., Steps]) -> None:
    run = steps(any_worker=lambda own: [own[0], True])
    run.take(3.0)
    assert run.state.interrupted
    assert run.model.stop_training


def test_speed_is_that_of_the_whole_interval(
    steps: Callable[..., Steps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress line in between makes no difference."""
    clock, processor_clock = [100.0], [7.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.process_time", lambda: processor_clock[0])
    run = steps(log_every=2)
    for _ in range(3):
        clock[0] += 4.0
        processor_clock[0] += 6.0
        run.take(3.0, tokens=10)
    metrics = run.progress.interval.metrics()
    assert metrics["source_tokens_per_second"] == 60 / 12
    assert metrics["target_tokens_per_second"] == round(30 / 12)
    assert metrics["tokens_per_second"] == round(90 / 12)
    assert metrics["seconds_per_step"] == 4.0
    assert metrics["processor_seconds_per_step"] == 6.0
    run.progress.on_epoch_begin(1)
    assert run.progress.interval.metrics() == {}
