from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest

from keras_transformer.config import TrainConfig
from keras_transformer.training.progress import (
    Journal,
    Progress,
    TrainingError,
    check_finite,
    duration,
    perplexity,
)


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


def test_journal_keeps_lines_and_forgets_later_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal(tmp_path)
    assert journal.forget_after(3) == []  # nothing there yet
    journal.line("first")
    journal.line("第二")
    for step in (1, 2, 3):
        journal.record({"step": step})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write('{"step": 2, "x": "第'.encode()[:-1])  # as a kill leaves it
    assert journal.forget_after(2) == [{"step": 1}, {"step": 2}]
    records = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(record)["step"] for record in records] == [1, 2]
    assert capsys.readouterr().err == "first\n第二\n"
    log = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 2)[2] for line in log] == ["first", "第二"]


def test_a_record_is_json_even_where_a_number_is_infinite(tmp_path: Path) -> None:
    Journal(tmp_path).record({"step": 1, "train_perplexity": math.inf, "train_loss": 2.5})
    text = (tmp_path / "metrics.jsonl").read_text()
    assert text == '{"step": 1, "train_perplexity": null, "train_loss": 2.5}\n'


class Steps:
    """Drives a callback as `fit` does, with scripted losses and ten tokens a step."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        iterations = keras.Variable(0, dtype="int64", trainable=False)
        self.model = SimpleNamespace(
            optimizer=SimpleNamespace(iterations=iterations, learning_rate=0.1),
            metrics=[],
            stop_training=False,
        )
        progress._model = self.model
        progress.on_train_begin()
        progress.on_epoch_begin(0)

    def take(self, loss: float) -> None:
        self.model.optimizer.iterations.assign_add(1)
        tokens = 10.0 * int(self.model.optimizer.iterations.numpy())
        values = {"loss": loss, "log_loss": loss, "source_tokens": tokens, "target_tokens": 0.0}
        self.model.metrics = [
            SimpleNamespace(name=name, result=lambda value=value: value)
            for name, value in values.items()
        ]
        self.progress.on_train_batch_end(0, values)


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., Steps]:
    def start(**config: Any) -> Steps:
        return Steps(Progress(TrainConfig(**config), Journal(tmp_path), 5.0, epoch_batches=2))

    return start


def test_a_bad_loss_stops_at_once_and_names_the_batch(steps: Callable[..., Steps]) -> None:
    run = steps(log_every=50)
    run.take(3.0)
    run.take(3.0)
    with pytest.raises(TrainingError, match="the loss is nan at step 3, batch 1 of epoch 2;"):
        run.take(math.nan)


def test_lines_come_every_so_many_steps_and_the_last_step_stops(
    steps: Callable[..., Steps], capsys: pytest.CaptureFixture[str]
) -> None:
    run = steps(log_every=2, max_steps=3)
    run.take(3.0)
    assert capsys.readouterr().err == ""
    run.take(3.0)
    assert capsys.readouterr().err.startswith(
        "step 2/3  loss 3.000  perplexity 20.09  rate 1.00e-01"
    )
    assert not run.model.stop_training
    run.take(3.0)
    assert run.model.stop_training


def test_time_counts_earlier_parts_and_stops(steps: Callable[..., Steps]) -> None:
    run = steps(max_minutes=0.1)  # six seconds, of which five are over
    run.take(3.0)
    assert 5.0 <= run.progress.seconds < 6.0
    assert not run.model.stop_training
    late = steps(max_minutes=0.08)
    late.take(3.0)
    assert late.model.stop_training


def test_speed_is_that_of_the_whole_stretch(
    steps: Callable[..., Steps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where no line of progress came in between."""
    clock = iter(range(100, 200, 4))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    run = steps(log_every=50)  # begins at 100, its stretch at 104
    run.progress.on_epoch_end(0, {"source_tokens": 30.0, "target_tokens": 10.0})
    assert run.progress.tokens_per_second == 10.0  # 40 tokens in 4 seconds
