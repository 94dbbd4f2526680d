"""Progress after each training step: metrics, log lines, stop conditions."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.config import TrainConfig
from keras_transformer.training.errors import check_finite
from keras_transformer.training.reporting.progress_bar import ProgressBar
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.scores import perplexity
from keras_transformer.training.state import TrainingState


@dataclasses.dataclass
class Totals:
    """Sums over the tokens of several steps."""

    loss: float = 0.0
    log_loss: float = 0.0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    gradient_norm: float = 0.0
    """Greatest norm of any step."""
    loss_scale: float = 0.0
    """That of the last step; 0 without one."""
    skipped: int = 0
    """Steps without an update, because their gradients overflowed float16. Only their number and
    their time count."""
    steps: int = 0
    start: float = dataclasses.field(default_factory=lambda: time.monotonic())
    """Monotonic clock before the first step, in seconds."""
    processor_start: float = dataclasses.field(default_factory=lambda: time.process_time())
    """Processor time of this process before the first step, in seconds."""

    def add(self, logs: dict[str, float]) -> None:
        """Add a step, from the logs of `TranslationModel.train_step`."""
        self.steps += 1
        self.loss_scale = logs.get("loss_scale", 0.0)
        if logs.get("skipped"):
            self.skipped += 1
            return
        tokens = logs["target_tokens"]
        self.loss += logs["loss"] * tokens
        self.log_loss += logs["log_loss"] * tokens
        self.source_tokens += logs["source_tokens"]
        self.target_tokens += tokens
        self.gradient_norm = max(self.gradient_norm, logs["gradient_norm"])

    def metrics(self) -> dict[str, float]:
        """Return means per token and rates per second so far; empty without any step."""
        if not self.steps:
            return {}
        tokens = max(self.target_tokens, 1.0)
        seconds = max(time.monotonic() - self.start, 1e-9)
        processor_seconds = time.process_time() - self.processor_start
        scale = {"loss_scale": self.loss_scale, "skipped_updates": self.skipped}
        return (scale if self.loss_scale else {}) | {
            "tokens_per_second": round((self.source_tokens + self.target_tokens) / seconds),
            "source_tokens_per_second": round(self.source_tokens / seconds),
            "target_tokens_per_second": round(self.target_tokens / seconds),
            "seconds_per_step": seconds / self.steps,
            "processor_seconds_per_step": processor_seconds / self.steps,
            "train_loss": self.loss / tokens,
            "train_perplexity": perplexity(self.log_loss / tokens),
            "gradient_norm": self.gradient_norm,
        }


class Progress(keras.callbacks.Callback):
    """Callback that reports every ``log_every`` steps and ends `fit` at the limits.

    Args:
        config: Limits and ``log_every``.
        run_log: Receives the lines.
        state: State of the training.
        batches_per_epoch: Batches in an epoch of the data, for messages about a batch.
        any_worker: Returns which flags are set on at least one worker.
        report: Called every ``log_every`` steps with the step and the metrics of these steps.

    Attributes:
        bar: Progress bar, or None; with a bar, progress lines go to log.txt only.
        interval: Totals since the last checkpoint.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_log: RunLog,
        state: TrainingState,
        batches_per_epoch: int,
        any_worker: Callable[[list[bool]], list[bool]] = list,
        report: Callable[[int, dict[str, float]], None] = lambda step, metrics: None,
    ) -> None:
        super().__init__()
        self._config = config
        self._run_log = run_log
        self._state = state
        self._batches_per_epoch = batches_per_epoch
        self._any_worker = any_worker
        self._report = report
        self.bar: ProgressBar | None = None
        self._seconds_before = state.seconds
        self._start: float | None = None
        self._launched = self._reported = state.step
        self._since_line = Totals()
        self.interval = Totals()

    @property
    def seconds(self) -> float:
        """Training time by this worker's clock, including that before a resume."""
        now = time.monotonic()
        return self._seconds_before + now - (now if self._start is None else self._start)

    def on_train_begin(self, logs: Any = None) -> None:
        """Start the clock at the first step of this process."""
        if self._start is None:
            self._start = time.monotonic()
        self._launched = self._reported = self._state.step

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Reset the totals, so that the time of a checkpoint does not count."""
        self.interval, self._since_line = Totals(), Totals()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Report a step; stop at the limits or if the loss is not finite.

        Args:
            batch: Not used.
            logs: Those of the step, or of the one before (`DistributedModel.late_logs`).
        """
        # The optimizer knows the step too, but a GPU would have to finish it first.
        self._launched += 1
        self._state.unsaved = True
        if logs:
            self._count(logs)
        out_of_time = 0 < self._config.max_minutes * 60 <= self.seconds
        out_of_time, interrupted = self._any_worker([out_of_time, bool(self._state.signal)])
        self._state.interrupted = interrupted
        if self._launched >= self._config.max_steps or out_of_time or interrupted:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Report the steps whose logs `fit` has not waited for."""
        for late in self.model.waiting_logs():
            self._count(late)

    def _count(self, logs: dict[str, float]) -> None:
        self._reported += 1
        step = self._reported
        if logs.get("skipped"):
            self._run_log.note(
                f"step {step}: gradients above the range of float16; update skipped, loss scale "
                f"{logs['loss_scale']:g} halved"
            )
        else:
            self._check(logs, step)
        for totals in (self.interval, self._since_line):
            totals.add(logs)
        if self.bar:
            self.bar.update(step, lambda: self._bar_text(step))
        if step % self._config.log_every == 0:
            self._log(step)

    def _check(self, logs: dict[str, float], step: int) -> None:
        epoch, batch = divmod(step - 1, self._batches_per_epoch)
        where = f", batch {batch + 1} of epoch {epoch + 1}"
        check_finite(logs["loss"], step, where)
        check_finite(logs["gradient_norm"], step, where, "the norm of the gradients")

    def _log(self, step: int) -> None:
        metrics = self._since_line.metrics()
        self._since_line = Totals()
        loss, speed, update, left = self._texts(step, metrics)
        line = f"step {step}/{self._config.max_steps}  {loss}  {update}  {speed}  {left}"
        (self._run_log.note if self.bar else self._run_log.line)(line)
        values = {"seconds": round(self.seconds, 1), "learning_rate": self._learning_rate()}
        self._report(step, values | metrics)

    def _bar_text(self, step: int) -> str:
        """Return the metrics, most important first: a narrow terminal cuts off the end."""
        loss, speed, update, left = self._texts(step, self._since_line.metrics())
        return f"{left}  {loss}  {speed}  {update}"

    def _texts(self, step: int, metrics: dict[str, float]) -> tuple[str, str, str, str]:
        """Return texts about the loss, the speed, the last update and the time left."""
        return (
            f"loss {metrics['train_loss']:.3f}  perplexity {metrics['train_perplexity']:.2f}",
            f"{metrics['source_tokens_per_second']:,} + "
            f"{metrics['target_tokens_per_second']:,} tokens/s",
            f"rate {self._learning_rate():.2e}  gradient {metrics['gradient_norm']:.2f}",
            f"{self._time_left(step, metrics['seconds_per_step'])} left",
        )

    def _learning_rate(self) -> float:
        return float(self.model.optimizer.learning_rate)

    def _time_left(self, step: int, seconds_per_step: float) -> str:
        seconds = (self._config.max_steps - step) * seconds_per_step
        if self._config.max_minutes:
            seconds = min(seconds, self._config.max_minutes * 60 - self.seconds)
        return format_duration(max(seconds, 0.0))


def format_duration(seconds: float) -> str:
    """Return hours, minutes and seconds, such as 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
