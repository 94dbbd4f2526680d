"""Progress for people (log.txt and the terminal) and for programs (metrics.jsonl)."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import keras

from keras_transformer.config import TrainConfig
from keras_transformer.errors import UserError


class TrainingError(UserError):
    """Training that cannot go on."""


def steps_taken(model: keras.Model) -> int:
    """Optimizer steps that the model has taken, read from whatever replicas hold them."""
    return int(model.optimizer.iterations.value.numpy())


def tell(text: str) -> None:
    """Tell people, on standard error."""
    print(text, file=sys.stderr, flush=True)


class Journal:
    """The two records of a run.

    Args:
        path: The run folder.
    """

    def __init__(self, path: Path) -> None:
        self._log = path / "log.txt"
        self._metrics = path / "metrics.jsonl"

    def line(self, text: str) -> None:
        """Tell people, on standard error and in log.txt."""
        tell(text)
        self.note(text)

    def note(self, text: str) -> None:
        """Add a line to log.txt, with the time."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def record(self, values: dict[str, Any]) -> None:
        """Add one record to metrics.jsonl; infinities, which JSON has not, become null."""
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite, allow_nan=False) + "\n")

    def forget_after(self, step: int) -> list[dict[str, Any]]:
        """Drop records of steps after ``step``, which are about to be taken again.

        A line that was cut short when the run was killed goes too.

        Returns:
            The records that stay, the oldest first.
        """
        if not self._metrics.exists():
            return []
        kept = []
        for line in self._metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and record.get("step", math.inf) <= step:
                kept.append(record)
        aside = self._metrics.with_name(f".writing.{self._metrics.name}")
        text = "".join(json.dumps(record) + "\n" for record in kept)
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, self._metrics)
        return kept


class Progress(keras.callbacks.Callback):
    """Prints a line every ``log_every`` steps, stops at the limits and on a bad loss.

    Args:
        config: The limits.
        journal: Where lines go.
        earlier_seconds: Time that the run took before it was resumed.
        epoch_batches: Batches in an epoch of the data, to name a bad one.
    """

    def __init__(
        self, config: TrainConfig, journal: Journal, earlier_seconds: float, epoch_batches: int
    ) -> None:
        super().__init__()
        self._config = config
        self._journal = journal
        self._earlier = earlier_seconds
        self._epoch_batches = epoch_batches
        self._start: float | None = None
        self._last_time, self._last_step, self._last_tokens = 0.0, 0, 0.0
        self._stretch_start = 0.0
        self.tokens_per_second = 0.0

    @property
    def seconds(self) -> float:
        """Time that the run has taken, earlier parts included."""
        now = time.monotonic()
        return self._earlier + now - (now if self._start is None else self._start)

    def on_train_begin(self, logs: Any = None) -> None:
        """Start the clock where the first step starts."""
        if self._start is None:
            self._start = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """The token counts begin anew with each checkpoint, and its own time is left out."""
        self._last_tokens = 0.0
        self._last_time = self._stretch_start = time.monotonic()
        self._last_step = steps_taken(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Measure the whole stretch since the last checkpoint."""
        tokens = logs["source_tokens"] + logs["target_tokens"]
        self.tokens_per_second = tokens / (time.monotonic() - self._stretch_start)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Print now and then; stop at the limits and at once where the loss is no number."""
        step = steps_taken(self.model)
        epoch, place = divmod(step - 1, self._epoch_batches)
        check_finite(logs["loss"], step, f", batch {place + 1} of epoch {epoch + 1}")
        out_of_time = 0 < self._config.max_minutes * 60 <= self.seconds
        if step >= self._config.max_steps or out_of_time:
            self.model.stop_training = True
        if step % self._config.log_every == 0:
            self._print(step)

    def _print(self, step: int) -> None:
        values = {metric.name: float(metric.result()) for metric in self.model.metrics}
        now = time.monotonic()
        tokens = values["source_tokens"] + values["target_tokens"]
        speed = (tokens - self._last_tokens) / (now - self._last_time)
        pace = (now - self._last_time) / (step - self._last_step)
        self._last_tokens, self._last_time, self._last_step = tokens, now, step
        self._journal.line(
            f"step {step}/{self._config.max_steps}  loss {values['loss']:.3f}  "
            f"perplexity {perplexity(values['log_loss']):.2f}  "
            f"rate {float(self.model.optimizer.learning_rate):.2e}  "
            f"{speed:,.0f} tokens/s  {self._left(step, pace)} left"
        )

    def _left(self, step: int, pace: float) -> str:
        seconds = (self._config.max_steps - step) * pace
        if self._config.max_minutes:
            seconds = min(seconds, self._config.max_minutes * 60 - self.seconds)
        return duration(max(seconds, 0.0))


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, such as 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def perplexity(log_loss: float) -> float:
    """exp of the mean -log P of a token; infinite where that overflows."""
    return math.exp(log_loss) if log_loss < 700 else math.inf


def check_finite(loss: float, step: int, place: str = "") -> None:
    """Stop a run whose loss is no number any more.

    Args:
        loss: Of the training or the dev set.
        step: After which it was measured.
        place: Of the batch.

    Raises:
        TrainingError: With step and place; the last checkpoint is from before it.
    """
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} at step {step}{place}; the last checkpoint is still good. "
            "A lower train.learning_rate_factor or a longer train.warmup_steps may help"
        )
