"""What happens after each step: counting, telling, stopping."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.config import TrainConfig
from keras_transformer.training.reporting.progress_bar import ProgressBar
from keras_transformer.training.reporting.run_log import RunLog, TrainingError
from keras_transformer.training.stopping import StopRequest


class NotFiniteError(TrainingError):
    """A loss or a gradient that is no number any more.

    Args:
        step: The step that made it so.
        message: For the user.
    """

    def __init__(self, step: int, message: str) -> None:
        super().__init__(message)
        self.step = step


def steps_taken(model: keras.Model) -> int:
    """Optimizer steps that the model has taken, read from whatever replicas hold them."""
    return int(model.optimizer.iterations.value.numpy())


@dataclasses.dataclass
class Totals:
    """Sums over the tokens of some steps."""

    loss: float = 0.0
    log_loss: float = 0.0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    gradient_norm: float = 0.0
    """The greatest."""
    steps: int = 0
    began: float = dataclasses.field(default_factory=lambda: time.monotonic())
    """On the clock that only runs forward, in seconds."""

    def add(self, logs: dict[str, float]) -> None:
        """Count a step in, from what it returned."""
        tokens = logs["target_tokens"]
        self.loss += logs["loss"] * tokens
        self.log_loss += logs["log_loss"] * tokens
        self.source_tokens += logs["source_tokens"]
        self.target_tokens += tokens
        self.gradient_norm = max(self.gradient_norm, logs["gradient_norm"])
        self.steps += 1

    def values(self) -> dict[str, float]:
        """Means over tokens and rates a second until now; empty without any step."""
        if not self.steps:
            return {}
        tokens = max(self.target_tokens, 1.0)
        seconds = max(time.monotonic() - self.began, 1e-9)
        return {
            "tokens_per_second": round((self.source_tokens + self.target_tokens) / seconds),
            "source_tokens_per_second": round(self.source_tokens / seconds),
            "target_tokens_per_second": round(self.target_tokens / seconds),
            "seconds_per_step": seconds / self.steps,
            "train_loss": self.loss / tokens,
            "train_perplexity": perplexity(self.log_loss / tokens),
            "gradient_norm": self.gradient_norm,
        }


class Progress(keras.callbacks.Callback):
    """Counts, tells every ``log_every`` steps, ends `fit` at the limits, refuses a bad loss.

    Args:
        config: The limits.
        journal: Where lines go.
        earlier_seconds: Time that the run took before it was resumed.
        epoch_batches: Batches in an epoch of the data, to name a bad one.
        request: A signal to stop, once it comes.
        agreed: What any of the workers wants; called with what this one wants.
        seen: Called every ``log_every`` steps with the step and the numbers of these steps.

    Attributes:
        bar: Shows each step, where there is one; lines of progress then go to log.txt alone.
        stretch: What has been counted since the last checkpoint.
        stopped: Whether a signal to stop has come to any worker.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_log: RunLog,
        earlier_seconds: float,
        epoch_batches: int,
        request: StopRequest,
        agreed: Callable[[list[bool]], list[bool]] = list,
        seen: Callable[[int, dict[str, float]], None] = lambda step, values: None,
    ) -> None:
        super().__init__()
        self._config = config
        self._run_log = run_log
        self._earlier = earlier_seconds
        self._epoch_batches = epoch_batches
        self._request = request
        self._agreed = agreed
        self._seen = seen
        self.bar: ProgressBar | None = None
        self._start: float | None = None
        self._since_line = Totals()
        self.interval = Totals()
        self.stopped = False

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
        """Count anew after each checkpoint, whose own time is left out."""
        self.interval, self._since_line = Totals(), Totals()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Tell now and then; stop at the limits, and at once where the loss is no number."""
        step = steps_taken(self.model)
        self._check(logs, step)
        for totals in (self.interval, self._since_line):
            totals.add(logs)
        self._request.at_once = False  # now there is a step to save
        out_of_time = 0 < self._config.max_minutes * 60 <= self.seconds
        out_of_time, self.stopped = self._agreed([out_of_time, bool(self._request.signal)])
        if step >= self._config.max_steps or out_of_time or self.stopped:
            self.model.stop_training = True
        if self.bar:
            self.bar.moved_to(step, lambda: self._beside_bar(step))
        if step % self._config.log_every == 0:
            self._tell(step)

    def _check(self, logs: dict[str, float], step: int) -> None:
        epoch, place = divmod(step - 1, self._epoch_batches)
        where = f", batch {place + 1} of epoch {epoch + 1}"
        check_finite(logs["loss"], step, where)
        check_finite(logs["gradient_norm"], step, where, "the norm of the gradients")

    def _tell(self, step: int) -> None:
        values = self._since_line.values()
        self._since_line = Totals()
        loss, speed, update, left = self._numbers(step, values)
        line = f"step {step}/{self._config.max_steps}  {loss}  {update}  {speed}  {left}"
        (self._run_log.note if self.bar else self._run_log.line)(line)
        self._seen(
            step, {"seconds": round(self.seconds, 1), "learning_rate": self._rate(), **values}
        )

    def _beside_bar(self, step: int) -> str:
        """What matters most first: a narrow terminal cuts the rest off."""
        loss, speed, update, left = self._numbers(step, self._since_line.values())
        return f"{left}  {loss}  {speed}  {update}"

    def _numbers(self, step: int, values: dict[str, float]) -> tuple[str, str, str, str]:
        """How well it goes, how fast, how the last update was made, and the time left."""
        return (
            f"loss {values['train_loss']:.3f}  perplexity {values['train_perplexity']:.2f}",
            f"{values['source_tokens_per_second']:,} + "
            f"{values['target_tokens_per_second']:,} tokens/s",
            f"rate {self._rate():.2e}  gradient {values['gradient_norm']:.2f}",
            f"{self._left(step, values['seconds_per_step'])} left",
        )

    def _rate(self) -> float:
        return float(self.model.optimizer.learning_rate)

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


def check_finite(value: float, step: int, place: str = "", name: str = "the loss") -> None:
    """Stop a run whose loss is no number any more.

    Args:
        value: The loss of the training or the dev set, or what else ``name`` says.
        step: After which it was measured.
        place: Of the batch.
        name: What it is.

    Raises:
        NotFiniteError: With step and place; the last checkpoint is from before it.
    """
    if not math.isfinite(value):
        raise NotFiniteError(
            step,
            f"{name} is {value} at step {step}{place}; the last checkpoint is still good. "
            "A lower train.learning_rate_factor, a longer train.warmup_steps or "
            "train.clip_norm may help",
        )
