"""A whole training: data, model, `fit`, checkpoints, the weights that translate."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import Config, TrainConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batches import dataset
from keras_transformer.data.prepared import Prepared
from keras_transformer.evaluation.metrics import metrics
from keras_transformer.model import transformer
from keras_transformer.run import Run, RunError
from keras_transformer.training import bad_batch
from keras_transformer.training.best_weights import BestWeights, is_checkpoint
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.dev_set import DevSet, Scores, format_scores
from keras_transformer.training.distribution import Distribution, DistributionError
from keras_transformer.training.optimizer import ReducedAdam
from keras_transformer.training.reporting import progress_bar, tensorboard
from keras_transformer.training.reporting.progress import (
    NotFiniteError,
    Progress,
    check_finite,
    duration,
)
from keras_transformer.training.reporting.reporter import Reporter
from keras_transformer.training.reporting.run_log import RunLog, TrainingError, tell
from keras_transformer.training.reporting.summary import summary
from keras_transformer.training.resuming import check_resumable, with_vocabulary_of
from keras_transformer.training.schedule import NoamSchedule
from keras_transformer.training.step import StepOptions, TranslationModel
from keras_transformer.training.stopping import Stopped, StopRequest


def train(
    config: Config,
    path: Path,
    resume: bool = False,
    devices: str = "auto",
    accept_changes: bool = False,
) -> Run:
    """Train from the beginning, or go on with a run.

    Every worker of a cluster calls this with the same arguments (see `Distribution`).

    Args:
        config: The configuration; on resuming, that of the run with what the user changed.
        path: The run folder, to be made or to go on with; all workers see the same one.
        resume: Whether to go on.
        devices: As for `Distribution`.
        accept_changes: Go on although the configuration or the corpus has changed.

    Returns:
        The finished run.

    Raises:
        UserError: The data, the configuration, the devices or the folder cannot be used.
        TrainingError: The loss is no number any more.
        Stopped: By a signal; what was done is saved.
    """
    if config.train.dev_sentences:
        metrics(config.data.target)  # what BLEU needs is missed now, not at the first checkpoint
    if config.train.tensorboard:
        tensorboard.check_installed()
    distribution = Distribution(devices)
    with contextlib.ExitStack() as stack:
        stack.enter_context(distribution.exit_on_lost_worker())
        if distribution.chief:
            lines: list[str] = []
            try:
                run, prepared = _opened(config, path, resume, accept_changes, lines, stack)
            except BaseException:
                with contextlib.suppress(tf.errors.OpError):  # the error itself matters more
                    distribution.broadcast_from_chief([0.0])
                raise
            distribution.broadcast_from_chief([1.0])
        else:
            lines = []
            if not all(distribution.broadcast_from_chief([0.0])):
                raise DistributionError("the chief could not begin; its own message says why")
            run = Run.open(path)
            if resume:
                run = dataclasses.replace(run, config=with_vocabulary_of(run.config, config))
            prepared = run.prepared(lambda line: None)
        run_log = RunLog(path, silent=not distribution.chief)
        for line in lines:  # told before there was a journal
            run_log.note(line)
        return Training(run, prepared, run_log, distribution).execute()


def _opened(
    config: Config,
    path: Path,
    resume: bool,
    accept_changes: bool,
    lines: list[str],
    stack: contextlib.ExitStack,
) -> tuple[Run, Prepared]:
    """Make the run, or open it with another configuration; alone in it, as long as ``stack``."""

    def log(line: str) -> None:
        tell(line)
        lines.append(line)

    if not resume:
        run, prepared = Run.create(path, config, log)
        stack.enter_context(run.locked())
        return run, prepared
    run = Run.open(path)
    config = with_vocabulary_of(run.config, config)
    check_resumable(run.config, config, accept_changes)
    run = dataclasses.replace(run, config=config)
    stack.enter_context(run.locked())
    return run, run.prepare_again(log) if accept_changes else run.prepared(log)


class Training:
    """The parts of one training, ready to run.

    Args:
        run: The run folder.
        prepared: Its data.
        journal: Its records.
        distribution: Where it runs; None: on all devices of this machine.
    """

    def __init__(
        self,
        run: Run,
        prepared: Prepared,
        run_log: RunLog,
        distribution: Distribution | None = None,
    ) -> None:
        config = run.config
        self.run = run
        self.run_log = run_log
        self.distribution = distribution or Distribution()
        self._config = config.train
        self._prepared = prepared
        if self._config.jit and self.distribution.devices > 1:
            raise DistributionError(
                "train.jit: expected false with several devices, which XLA cannot add up over; "
                f"got true with {self.distribution.devices}"
            )
        # Before any tensorflow-text tokenizer exists: seeding destroys those.
        keras.utils.set_random_seed(config.train.seed)
        with self.distribution.strategy.scope():
            self.model = _build(config, self.micro_batches)
        self.checkpoints = Checkpoints(
            run.path / "checkpoints",
            self.model,
            keep=config.train.average,
            every=config.train.checkpoint_every,
        )
        self._best = BestWeights(
            run, config.train, self.checkpoints, writes=self.distribution.chief
        )
        self._plan = BatchPlan(
            prepared.train.source_lengths,
            prepared.train.target_lengths,
            self._config.batch_tokens,
            self._config.seed,
            fixed_shapes=self._config.jit,
        )
        self.dev_set = DevSet(self.model, prepared, config)
        self._reporter = Reporter(run, run_log, self.dev_set, writes=self.distribution.chief)
        self._request = StopRequest()

    @property
    def micro_batches(self) -> int:
        """Parts in which a device takes its share of a batch, so that each fits it."""
        at_once = self._config.micro_batch_tokens
        share = self._config.batch_tokens / self.distribution.devices
        return math.ceil(share / at_once) if at_once else 1

    def execute(self) -> Run:
        """Train to the limits, average, keep what translates best.

        Raises:
            UserError: The folder cannot be gone on with, or not be written.
            TrainingError: The loss is no number any more, or memory does not suffice.
            Stopped: By a signal.
        """
        with self._request.heard():
            try:
                self._execute()
            except Stopped as stop:
                saved = max(self.checkpoints.there(), default=0)
                self.run_log.line(
                    f"stopped by {stop.name}; saved at step {saved}, --resume goes on from there"
                    if saved
                    else f"stopped by {stop.name} before the first step; --resume begins"
                )
                raise  # without a picture: to leave soon matters more
            except NotFiniteError as error:
                raise TrainingError(f"{error}{self._keep_batch(error.step)}") from error
        return self.run

    def _execute(self) -> None:
        records = self._restore()
        self._describe()
        progress = Progress(
            self._config,
            self.run_log,
            float(self.checkpoints.seconds.numpy()),
            self._plan.batches_per_epoch,
            self._request,
            self._agreed,
            self._reporter.steps,
        )
        step = self.checkpoints.step
        due = step > 0 and (self._finished() or step % self._config.checkpoint_every == 0)
        if due and not any(record["step"] == step for record in records):
            self._checkpoint(progress)  # a signal came before it was judged
        elif self._finished() and not self._untried(records) and self._has_best():
            self.run_log.line(
                f"finished before: {step} steps, {self.run.path}; a larger train.max_steps, "
                "train.max_minutes or train.patience goes on"
            )
            self._reporter.draw(anew=False)
            return
        silent = not self.distribution.chief
        with progress_bar.shown(self._config.max_steps, step, silent) as progress.bar:
            while not self._finished():
                self._fit(progress)
        self._finish(progress)

    def _has_best(self) -> bool:
        return self.run.best_weights.exists()

    def _untried(self, records: list[dict[str, Any]]) -> list[str]:
        """The kinds of average, by their names in the records, that are still to be judged."""
        kinds = ["averaged", *["ema_decay"] * (self._config.ema_decay > 0)]
        tried = [record for record in records if record["step"] == self.checkpoints.step]
        return [kind for kind in kinds if not any(kind in record for record in tried)]

    def _agreed(self, wishes: list[bool]) -> list[bool]:
        """What any of the workers wishes."""
        if self.distribution.workers == 1:
            return wishes
        return (self.distribution.all_reduce_sum(tf.constant(wishes, tf.float64)) > 0).tolist()

    def _restore(self) -> list[dict[str, Any]]:
        """Go back to the last checkpoint, if any; give the records up to it."""
        if self.distribution.chief:
            self.checkpoints.clear_away()
        # The first checkpoint may have been stopped in the midst of being written.
        judged = [record for record in self.run_log.records() if is_checkpoint(record)]
        restored = self.checkpoints.restore_latest(self.run_log.line, begin_again=len(judged) < 2)
        self.distribution.wait()  # the others have read before the chief writes
        self._check_together()
        if not restored and self._has_best() and len(judged) > 1:
            raise RunError(
                f"{self.run.path / 'checkpoints'}: no checkpoint is left to go on from; "
                f"{self.run.best_weights.name} still translates. Remove it to begin again"
            )
        if self.distribution.chief:
            self.run.write_config()  # not before it is known to fit
        records = self.run_log.forget_after(self.checkpoints.step)
        self._reporter.forget_after(self.checkpoints.step)
        for record in records:
            # An average is judged after the last checkpoint, which cannot know of it.
            if not is_checkpoint(record):
                self._best.offer_record(record)
        if restored:
            self.run_log.line(f"going on after step {self.checkpoints.step}")
        return records

    def _check_together(self) -> None:
        [step] = self.distribution.broadcast_from_chief([self.checkpoints.step])
        if step != self.checkpoints.step:
            raise DistributionError(
                f"{self.run.path}: expected the chief's checkpoint of step {step:.0f}, found "
                f"that of step {self.checkpoints.step}; all workers must see the same run folder"
            )

    def _finished(self) -> bool:
        seconds, limit = float(self.checkpoints.seconds.numpy()), self._config.max_minutes * 60
        step = self.checkpoints.step
        out_of_time = 0 < limit <= seconds
        return step >= self._config.max_steps or out_of_time or self._best.is_long_ago(step)

    def _fit(self, progress: Progress) -> None:
        step, every = self.checkpoints.step, self._config.checkpoint_every
        # After a stop in between, first to where the next checkpoint would have been.
        short = -step % every
        try:
            self.model.fit(
                self.distribution.strategy.distribute_datasets_from_function(
                    lambda _: dataset(
                        self._prepared.train, self._plan, step, shards=self.distribution.shards
                    )
                ),
                shuffle=False,
                # An epoch of `fit` is the stretch between two checkpoints.
                steps_per_epoch=short or every,
                epochs=1 if short else math.ceil((self._config.max_steps - step) / every),
                callbacks=[progress, _AtCheckpoint(lambda: self._interval_ends(progress))],
                verbose=0,
            )
        except tf.errors.ResourceExhaustedError as error:
            now = self._config.batch_tokens / self.distribution.devices / self.micro_batches
            field = "batch_tokens" if self._config.jit else "micro_batch_tokens"
            raise TrainingError(
                f"the memory does not suffice for a step; a train.{field} smaller than the "
                f"{math.ceil(now):,} target tokens of now needs less"
            ) from error

    def _interval_ends(self, progress: Progress) -> None:
        if progress.stopped:
            self._save(progress.seconds)
            raise Stopped(self._request.signal or signal.SIGTERM)
        self._checkpoint(progress)
        if self._finished():
            self.model.stop_training = True

    def _checkpoint(self, progress: Progress) -> None:
        """Look at the dev set, keep the best weights, save."""
        step = self.checkpoints.step
        counted = progress.interval.values()  # before the dev set takes its time
        try:
            scores, translations, seconds = self._judged(progress.seconds)
        except Stopped:
            self._save(progress.seconds)
            raise
        # The last update may have spoilt the weights: its own loss cannot tell.
        check_finite(scores["dev_loss"], step, " on the dev set")
        best = self._best.offer(self.model, scores, translations, step)
        # Before the checkpoint: a record too many is dropped on resuming, a missing one is lost.
        self.run_log.record(
            {
                "step": step,
                "seconds": round(seconds, 1),
                "learning_rate": float(self.model.optimizer.learning_rate),
                **counted,
                **scores,
            }
        )
        self._reporter.checkpoint(step, scores, translations)
        records = self.run_log.records()
        self._best.keep_if_among(self.model, records, step)
        self._save(seconds)
        self._best.forget_others(records)
        self.run_log.line(
            f"checkpoint at step {step}: {format_scores(scores)}{' (best)' if best else ''}"
        )
        if self.distribution.workers == 1:  # several agree after their next step
            self._request.check()

    def _judged(self, seconds: float = 0.0) -> tuple[Scores, list[str], float]:
        """What the chief finds on the dev set, and its clock; told to all workers.

        Raises:
            Stopped: A signal came to the chief meanwhile.
        """
        names = ["dev_loss", "dev_perplexity", "dev_bleu"]
        scores: Scores = {}
        translations: list[str] = []
        stopped = None
        if self.distribution.chief:
            try:
                scores, translations = self.dev_set.evaluate(self._request.check)
            except Stopped as stop:
                stopped = stop
        values = [scores.get(name, math.nan) for name in names]
        *values, seconds, leave = self.distribution.broadcast_from_chief(
            [*values, seconds, float(stopped is not None)]
        )
        if leave:
            raise stopped or Stopped(signal.SIGTERM)
        found = dict(zip(names, values, strict=True))
        if not self._config.dev_sentences:
            del found["dev_bleu"]
        return found, translations, seconds

    def _save(self, seconds: float) -> None:
        self.checkpoints.seconds.assign(seconds)
        if self.distribution.chief:
            self.checkpoints.save()
        self.distribution.wait()  # so that a worker which ends takes none with it
        self._request.at_once = True

    def _finish(self, progress: Progress) -> None:
        """Try averages of the weights; keep what translates best."""
        untried = self._untried(self.run_log.records())
        averaged = len(self.checkpoints.averaged())
        moving = [average.numpy() for average in self.model.optimizer.ema_weights()]
        if "averaged" in untried:
            self._try(
                "average",
                self.checkpoints.average(),
                f"average of the last {averaged} checkpoints",
                {"averaged": averaged},
            )
        if "ema_decay" in untried:
            record = {"ema_decay": self._config.ema_decay}
            self._try("ema_decay", moving, "moving average", record)
        self._reporter.end()
        self.run_log.line(
            f"done: {self.checkpoints.step} steps in {duration(progress.seconds)}, {self.run.path}"
        )

    def _try(self, kind: str, weights: list[np.ndarray], name: str, record: dict[str, Any]) -> None:
        step = self.checkpoints.step
        self.model.set_weights(weights)
        scores, translations, _ = self._judged()
        best = self._best.offer(self.model, scores, translations)
        self.run_log.record({"step": step, **record, **scores})
        self._reporter.average(kind, step, scores)
        self.run_log.line(
            f"{name}: {format_scores(scores)}{' (best)' if best else '; not the best'}"
        )

    def _describe(self) -> None:
        config = self.run.config
        for line in summary(self.model, config, self._plan, self.distribution, self.micro_batches):
            self.run_log.line(line)

    def _keep_batch(self, step: int) -> str:
        """Keep the pairs of a step that went wrong; give a sentence about it for the message."""
        if not self.distribution.chief:
            return ""
        path = bad_batch.write(self.run.path, self._prepared, self._plan, step)
        return f". The pairs of that step are in {path}"


class _AtCheckpoint(keras.callbacks.Callback):
    """Calls a function where `fit` ends an epoch."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self._action = action

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Call it."""
        self._action()


def _build(config: Config, micro_batches: int) -> TranslationModel:
    """The model with its optimizer; call it in the strategy's scope."""
    train: TrainConfig = config.train
    dtype = "float32" if train.precision == "float32" else "mixed_bfloat16"
    model = transformer.build(config.model, dtype, TranslationModel, train.gradient_checkpointing)
    optimizer = ReducedAdam(
        NoamSchedule(config.model.d_model, train.warmup_steps, train.learning_rate_factor),
        train.adam_beta_1,
        train.adam_beta_2,
        train.adam_epsilon,
        use_ema=train.ema_decay > 0,
        ema_momentum=train.ema_decay or 0.99,
    )
    options = StepOptions(
        train.label_smoothing, train.seed, micro_batches, train.clip_norm, train.jit
    )
    model.configure(optimizer, options)
    return model
