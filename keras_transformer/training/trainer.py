"""Training of a run: the calls of `fit`, checkpoints, scores on the dev set."""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer import allocator, environment
from keras_transformer.compat.tensorflow import devices_without_autotune
from keras_transformer.config import Config
from keras_transformer.data.batches import dataset
from keras_transformer.data.prepared import Prepared
from keras_transformer.devices import unused_gpu
from keras_transformer.errors import RunError
from keras_transformer.evaluation.tokenization import choose_tokenization
from keras_transformer.run import Run
from keras_transformer.standard_error import tolerant_stderr
from keras_transformer.training import bad_batch
from keras_transformer.training.averages import try_averages, untried_averages
from keras_transformer.training.dev_set import evaluate_on_chief
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.errors import (
    NotFiniteError,
    TrainingError,
    check_finite,
    way_out,
)
from keras_transformer.training.initialization import load_initial_weights
from keras_transformer.training.parts import build_parts
from keras_transformer.training.precision import choose_precision, with_precision_of
from keras_transformer.training.reporting import tensorboard
from keras_transformer.training.reporting.progress import Progress, format_duration
from keras_transformer.training.reporting.progress_bar import progress_bar
from keras_transformer.training.reporting.run_log import RunLog, print_line
from keras_transformer.training.reporting.summary import summary
from keras_transformer.training.resuming import open_run, restore
from keras_transformer.training.scores import format_scores
from keras_transformer.training.session import log_session
from keras_transformer.training.stopping import Stopped, check_signal, deferred_signals


@tolerant_stderr()
def train(
    config: Config,
    path: Path,
    resume: bool = False,
    devices: str = "auto",
    accept_changes: bool = False,
    init_from: Path | str | None = None,
) -> Run:
    """Train a new run, or resume one.

    Every worker of a cluster calls this with the same arguments (see `Distribution`).

    Args:
        config: The configuration; to resume, the run's own with any changes.
        path: The run folder to create or resume, the same one for all workers.
        resume: Whether to resume.
        devices: As for `Distribution`.
        accept_changes: Resume although the configuration or the corpus has changed.
        init_from: A trained run, or the name of a built-in model: a new run starts from its best
            weights and uses its tokenizer, with a fresh optimizer. ``config`` has its
            architecture (dropout and ``model.attention`` may differ) and its vocabulary.

    Returns:
        The finished run.

    Raises:
        UserError: The data, the configuration, the devices or the folder cannot be used.
        TrainingError: The loss is not finite, or memory is exhausted.
        Stopped: A signal has arrived; the steps taken are saved.
    """
    environment.check_fit_limits()
    if resume and init_from is not None:
        raise RunError(
            "init_from: expected a new run; a resumed one has its initial weights already"
        )
    if config.train.dev_sentences:
        # Fail now, not at the first checkpoint.
        choose_tokenization(config.data.target, tokenize=config.train.bleu_tokenizer)
    if config.train.tensorboard:
        tensorboard.check_installed()
    if config.train.deterministic:
        tf.config.experimental.enable_op_determinism()
    distribution = Distribution(devices)
    lines: list[str] = []

    def log(line: str) -> None:
        print_line(line)
        lines.append(line)

    if resume:
        config = with_precision_of(path, config)
    config = choose_precision(config, log if distribution.chief else lambda line: None)
    if distribution.chief and devices == "auto" and (hint := unused_gpu()):
        log(hint)

    with (
        distribution.exit_on_lost_worker(),
        open_run(config, path, resume, accept_changes, distribution, log, init_from) as opened,
    ):
        run, prepared = opened
        run_log = RunLog(path, silent=not distribution.chief)
        for line in lines:  # already printed, when log.txt did not exist yet
            run_log.note(line)
        for line in (
            *allocator.report(),
            *environment.arithmetic_settings(),
            *config.model.warnings(),
        ):
            run_log.line(line)
        with _hint_without_checkpoint(run, run_log):
            return Trainer(run, prepared, run_log, distribution).train()


@contextlib.contextmanager
def _hint_without_checkpoint(run: Run, run_log: RunLog) -> Iterator[None]:
    """Log how to start again after a failure that leaves a folder without a checkpoint."""
    try:
        yield
    except Stopped:  # `Trainer.train` has logged how to continue
        raise
    except BaseException:
        if not any((run.path / "checkpoints").glob("step-*.index")):
            with contextlib.suppress(TrainingError):  # the original error matters more
                run_log.line(
                    f"{run.path} has the prepared data, but no step yet: start again with "
                    "--resume, and with --accept_changes too if options change"
                )
        raise


class Trainer:
    """Training of one run.

    Args:
        run: The run folder.
        prepared: Its data.
        run_log: Its records.
        distribution: The devices and workers; by default all devices of this machine.

    Attributes:
        parts: Model, dev set, checkpoints and the other parts.
    """

    def __init__(
        self,
        run: Run,
        prepared: Prepared,
        run_log: RunLog,
        distribution: Distribution | None = None,
    ) -> None:
        self.parts = build_parts(run, prepared, run_log, distribution or Distribution())
        self._config = self.parts.config
        self._state = self.parts.state
        self._run_log = run_log

    def train(self) -> Run:
        """Train up to the limits, then score the averages; keep the best weights.

        Returns:
            The finished run.

        Raises:
            UserError: The folder cannot be resumed or written.
            TrainingError: The loss is not finite, or memory is exhausted.
            Stopped: A signal has arrived; the steps taken are saved.
        """
        with deferred_signals(self._state):
            try:
                self._train()
            except Stopped as stop:
                saved = max(self.parts.checkpoints.steps(), default=0)
                self._run_log.line(
                    f"stopped by {stop.name}; saved at step {saved}, continue with --resume"
                    if saved
                    else f"stopped by {stop.name} before the first step; start with --resume"
                )
                raise  # the process should exit soon: no curves
            except NotFiniteError as error:
                saved = max(self.parts.checkpoints.steps(), default=0)
                message = f"{error}. {way_out(saved)}{self._save_batch(error.step)}"
                raise TrainingError(message) from error
        return self.parts.run

    def _train(self) -> None:
        parts, state = self.parts, self._state
        records = restore(parts)
        self._log_summary()
        if not state.step:
            load_initial_weights(parts)
        progress = Progress(
            self._config,
            self._run_log,
            state,
            parts.plan.batches_per_epoch,
            parts.distribution.any_worker,
            parts.reporter.steps,
        )
        if self._lacks_scores(records):
            self._checkpoint(progress)
        elif self._nothing_left(records):
            self._run_log.line(
                f"already finished: {state.step} steps, {parts.run.path}; raise train.max_steps, "
                "train.max_minutes or train.patience to train longer"
            )
            parts.reporter.draw_curves(only_if_missing=True)
            return
        log_session(parts)
        silent = not parts.distribution.chief
        with progress_bar(self._config.max_steps, state.step, silent) as progress.bar:
            while not self._finished():
                self._fit(progress)
        try_averages(parts)
        parts.reporter.close()
        self._run_log.line(
            f"done: {state.step} steps in {format_duration(progress.seconds)}, {parts.run.path}"
        )

    def _log_summary(self) -> None:
        parts = self.parts
        for line in summary(
            parts.model, parts.run.config, parts.plan, parts.distribution, parts.micro_batches
        ):
            self._run_log.line(line)
        tokenization = parts.dev_set.tokenization
        if tokenization and tokenization.note:
            self._run_log.line(f"{tokenization.note}; --train.bleu_tokenizer chooses another")

    def _lacks_scores(self, records: list[dict[str, Any]]) -> bool:
        """Return True if a signal ended the last session before its last checkpoint was scored."""
        step = self._state.step
        due = step > 0 and (self._finished() or step % self._config.checkpoint_every == 0)
        return due and not any(record["step"] == step for record in records)

    def _nothing_left(self, records: list[dict[str, Any]]) -> bool:
        """Return True if neither steps nor averages are left."""
        return (
            self._finished()
            and not untried_averages(records, self._config, self._state.step)
            and self.parts.run.best_weights.exists()
        )

    def _finished(self) -> bool:
        step, limit = self._state.step, self._config.max_minutes * 60
        out_of_time = 0 < limit <= self._state.seconds
        out_of_patience = self.parts.best.patience_exhausted(step)
        return step >= self._config.max_steps or out_of_time or out_of_patience

    def _fit(self, progress: Progress) -> None:
        """Call `fit` with the interval between two checkpoints as an epoch."""
        parts, every = self.parts, self._config.checkpoint_every
        step = self._state.step
        # After a stop between two checkpoints, the first epoch ends at the next regular one.
        remaining = -step % every
        end_interval = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: self._end_interval(progress)
        )
        batches = parts.distribution.strategy.distribute_datasets_from_function(
            lambda _: dataset(
                parts.prepared.train, parts.plan, step, shards=parts.distribution.shards
            )
        )
        try:
            with devices_without_autotune():
                parts.model.fit(
                    batches,
                    shuffle=False,
                    steps_per_epoch=remaining or every,
                    epochs=1 if remaining else math.ceil((self._config.max_steps - step) / every),
                    callbacks=[progress, end_interval],
                    verbose=0,
                )
        except tf.errors.ResourceExhaustedError as error:
            tokens = self._config.batch_tokens / parts.distribution.devices / parts.micro_batches
            field = "batch_tokens" if self._config.jit else "micro_batch_tokens"
            raise TrainingError(
                f"out of memory: reduce train.{field} (now {math.ceil(tokens):,} target tokens per "
                "micro-batch)"
            ) from error

    def _end_interval(self, progress: Progress) -> None:
        if self._state.interrupted:
            self._save(progress.seconds)
            raise Stopped(self._state.signal or signal.SIGTERM)
        self._checkpoint(progress)
        if self._finished():
            self.parts.model.stop_training = True

    def _checkpoint(self, progress: Progress) -> None:
        """Score the dev set, keep the best weights and save a checkpoint."""
        parts, step = self.parts, self._state.step
        train_metrics = progress.interval.metrics()  # before the time of the dev set
        try:
            scores, translations, seconds = evaluate_on_chief(
                parts.dev_set, parts.distribution, self._state, progress.seconds
            )
        except Stopped:
            self._save(progress.seconds)
            raise
        # The training loss of a step is from before its update, which may have broken the weights.
        check_finite(scores["dev_loss"], step, " on the dev set")
        best = parts.best.offer(parts.model, scores, translations, step)
        # Before the checkpoint: a resume can remove a surplus record, but not add a missing one.
        self._run_log.record(
            {
                "step": step,
                "seconds": round(seconds, 1),
                "learning_rate": float(parts.model.optimizer.learning_rate),
                **train_metrics,
                **scores,
            }
        )
        parts.reporter.checkpoint(step, scores, translations)
        records = self._run_log.records()
        parts.best.keep_if_ranked(parts.model, records, step)
        self._save(seconds)
        parts.best.remove_unranked(records)
        self._run_log.line(
            f"checkpoint at step {step}: {format_scores(scores)}{' (best)' if best else ''}"
        )
        if parts.distribution.workers == 1:  # several workers agree on a stop in `Progress`
            check_signal(self._state)

    def _save(self, seconds: float) -> None:
        self._state.seconds = seconds
        if self.parts.distribution.chief:
            self.parts.checkpoints.save()
        self.parts.distribution.wait()  # no worker may exit before the chief has written it
        self._state.unsaved = False

    def _save_batch(self, step: int) -> str:
        """Write the pairs of a step whose loss is not finite; return a sentence for the message."""
        parts = self.parts
        if not parts.distribution.chief:
            return ""
        path = bad_batch.write(parts.run.path, parts.prepared, parts.plan, step)
        return f". The pairs of that step are in {path}"
