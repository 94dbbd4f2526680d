"""Progress for people (log.txt and the terminal) and for programs (metrics.jsonl)."""

from __future__ import annotations

import json
import math
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
        print(text, file=sys.stderr, flush=True)
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def record(self, values: dict[str, Any]) -> None:
        """Add one record to metrics.jsonl."""
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def forget_after(self, step: int) -> None:
        """Drop records of steps after ``step``, which are about to be taken again."""
        if not self._metrics.exists():
            return
        kept = [
            line
            for line in self._metrics.read_text(encoding="utf-8").splitlines()
            if line.strip() and json.loads(line)["step"] <= step
        ]
        self._metrics.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


class Progress(keras.callbacks.Callback):
    """Prints a line every ``log_every`` steps, stops at the limits and on a bad loss.

    Args:
        config: The limits.
        journal: Where lines go.
        earlier_seconds: Time that the run took before it was resumed.
    """

    def __init__(self, config: TrainConfig, journal: Journal, earlier_seconds: float) -> None:
        super().__init__()
        self._config = config
        self._journal = journal
        self._earlier = earlier_seconds
        self._start = self._last_time = time.monotonic()
        self._first_step = self._last_step = 0
        self._last_tokens = 0.0
        self.tokens_per_second = 0.0

    @property
    def seconds(self) -> float:
        """Time that the run has taken, earlier parts included."""
        return self._earlier + time.monotonic() - self._start

    def on_train_begin(self, logs: Any = None) -> None:
        """Start the clock where the first step starts."""
        self._start = self._last_time = time.monotonic()
        self._first_step = self._last_step = steps_taken(self.model)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """The token counts begin anew with each checkpoint, and its own time is left out."""
        self._last_tokens = 0.0
        self._last_time = time.monotonic()
        self._last_step = steps_taken(self.model)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Print now and then; stop at the limits."""
        step = steps_taken(self.model)
        out_of_time = 0 < self._config.max_minutes * 60 <= self.seconds
        if step >= self._config.max_steps or out_of_time:
            self.model.stop_training = True
        if step % self._config.log_every == 0:
            self._print(step)

    def _print(self, step: int) -> None:
        values = {metric.name: float(metric.result()) for metric in self.model.metrics}
        check_finite(values["loss"], step)
        now = time.monotonic()
        tokens = values["source_tokens"] + values["target_tokens"]
        self.tokens_per_second = (tokens - self._last_tokens) / (now - self._last_time)
        pace = (now - self._last_time) / (step - self._last_step)
        self._last_tokens, self._last_time, self._last_step = tokens, now, step
        self._journal.line(
            f"step {step}/{self._config.max_steps}  loss {values['loss']:.3f}  "
            f"perplexity {perplexity(values['log_loss']):.2f}  "
            f"rate {float(self.model.optimizer.learning_rate):.2e}  "
            f"{self.tokens_per_second:,.0f} tokens/s  {self._left(step, pace)} left"
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


def check_finite(loss: float, step: int) -> None:
    """Stop a run whose loss is no number any more.

    Raises:
        TrainingError: With the step; the last checkpoint is from before it.
    """
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} at step {step}; the last checkpoint is still good. "
            "A lower train.learning_rate_factor or a longer train.warmup_steps may help"
        )
