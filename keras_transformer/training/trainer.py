"""A whole training: data, model, `fit`, checkpoints, the weights that translate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import Config, TrainConfig, to_dict
from keras_transformer.data.batches import BatchPlan, dataset
from keras_transformer.data.prepare import Prepared
from keras_transformer.data.store import EncodedStore
from keras_transformer.evaluation.metrics import metrics
from keras_transformer.model import transformer
from keras_transformer.run import Run, RunError
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.dev_set import DevSet, Scores, merit, told
from keras_transformer.training.distribution import strategy
from keras_transformer.training.progress import (
    Journal,
    Progress,
    TrainingError,
    check_finite,
    duration,
    perplexity,
    tell,
)
from keras_transformer.training.schedule import NoamSchedule
from keras_transformer.training.step import TranslationModel

# What may differ when a run goes on: nothing that its weights or its data depend on.
# dev_sentences is none of them, since BLEU of other sentences cannot tell which is best.
RESUMABLE = ("max_steps", "max_minutes", "log_every")


def train(config: Config, path: Path, resume: bool = False) -> Run:
    """Train from the beginning, or go on with a run.

    Args:
        config: The configuration; on resuming, that of the run with what the user changed.
        path: The run folder, to be made or to go on with.
        resume: Whether to go on.

    Returns:
        The finished run.

    Raises:
        UserError: The data, the configuration or the folder cannot be used.
        TrainingError: The loss is no number any more.
    """
    if config.train.dev_sentences:
        metrics(config.data.target)  # what BLEU needs is missed now, not at the first checkpoint
    if resume:
        run = Run.open(path)
        check_resumable(run.config, config)
        run = dataclasses.replace(run, config=config)
        with run.alone():
            journal = Journal(path)
            prepared = run.prepared(journal.line)
            run.write_config()
            return Training(run, prepared, journal).execute()

    lines: list[str] = []

    def log(line: str) -> None:
        tell(line)
        lines.append(line)

    run, prepared = Run.create(path, config, log)
    with run.alone():
        journal = Journal(path)
        for line in lines:  # told before there was a folder
            journal.note(line)
        return Training(run, prepared, journal).execute()


def check_resumable(old: Config, new: Config) -> None:
    """Refuse changes that would make another run of it.

    Args:
        old: The configuration of the run.
        new: The configuration that it is to go on with.

    Raises:
        RunError: Names each field that differs, with both values.
    """
    differences = []
    before, after = to_dict(old), to_dict(new)
    for section in ("model", "data", "train"):
        for name, value in before[section].items():
            if after[section][name] != value and name not in RESUMABLE:
                differences.append(f"{section}.{name}: {value!r}, now {after[section][name]!r}")
    if differences:
        raise RunError(
            "the run was begun with other values: "
            + "; ".join(differences)
            + f". Only {', '.join('train.' + name for name in RESUMABLE)} and search.* may change"
        )


class Training:
    """The parts of one training, ready to run.

    Args:
        run: The run folder.
        prepared: Its data.
        journal: Its records.
    """

    def __init__(self, run: Run, prepared: Prepared, journal: Journal) -> None:
        config = run.config
        self.run = run
        self.journal = journal
        self._config = config.train
        self._prepared = prepared
        # Before any tensorflow-text tokenizer exists: seeding destroys those.
        keras.utils.set_random_seed(config.train.seed)
        with strategy().scope():
            self.model = _build(config)
        self.checkpoints = Checkpoints(
            run.path / "checkpoints",
            self.model,
            keep=config.train.average,
            every=config.train.checkpoint_every,
        )
        self._train_plan = self._plan(prepared.train)
        self.dev_set = DevSet(self.model, prepared, config, self._plan(prepared.dev))

    def _plan(self, store: EncodedStore) -> BatchPlan:
        return BatchPlan(
            store.source_lengths,
            store.target_lengths,
            self._config.batch_tokens,
            self._config.seed,
            fixed_shapes=self._config.jit,
        )

    def execute(self) -> Run:
        """Train to the limits, average, keep what translates best.

        Raises:
            UserError: The folder cannot be gone on with, or not be written.
            TrainingError: The loss is no number any more, or memory does not suffice.
        """
        records = self._restore()
        self._describe()
        last = records[-1] if records else {}
        if self._finished() and "averaged" in last and self.run.best_weights.exists():
            self.journal.line(
                f"finished before: {self.checkpoints.step} steps, {self.run.path}; "
                "a larger train.max_steps or train.max_minutes goes on"
            )
            return self.run
        progress = Progress(
            self._config,
            self.journal,
            float(self.checkpoints.seconds.numpy()),
            self._train_plan.batches_per_epoch,
        )
        while not self._finished():
            self._fit(progress)
        self._finish(progress)
        return self.run

    def _restore(self) -> list[dict[str, Any]]:
        """Go back to the last checkpoint, if any; give the records up to it."""
        restored = self.checkpoints.restore_latest()
        if not restored and self.run.best_weights.exists():
            raise RunError(
                f"{self.run.path / 'checkpoints'}: no checkpoint is left to go on from; "
                f"{self.run.best_weights.name} still translates. Remove it to begin again"
            )
        records = self.journal.forget_after(self.checkpoints.step)
        for record in records:
            # The average is judged after the last checkpoint, which cannot know of it.
            if "averaged" in record and merit(record) > float(self.checkpoints.best_score.numpy()):
                self.checkpoints.best_score.assign(merit(record))
                self.checkpoints.best_step.assign(record["step"])
        if restored:
            self.journal.line(f"going on after step {self.checkpoints.step}")
        return records

    def _finished(self) -> bool:
        seconds, limit = float(self.checkpoints.seconds.numpy()), self._config.max_minutes * 60
        return self.checkpoints.step >= self._config.max_steps or 0 < limit <= seconds

    def _fit(self, progress: Progress) -> None:
        step, every = self.checkpoints.step, self._config.checkpoint_every
        # After a stop in between, first to where the next checkpoint would have been.
        short = -step % every
        try:
            self.model.fit(
                dataset(self._prepared.train, self._train_plan, step),
                shuffle=False,
                # An epoch of `fit` is the stretch between two checkpoints.
                steps_per_epoch=short or every,
                epochs=1 if short else math.ceil((self._config.max_steps - step) / every),
                callbacks=[progress, _AtCheckpoint(lambda logs: self._checkpoint(logs, progress))],
                verbose=0,
            )
        except tf.errors.ResourceExhaustedError as error:
            raise TrainingError(
                "the memory does not suffice for a step; a smaller train.batch_tokens "
                f"(now {self._config.batch_tokens:,}) needs less"
            ) from error

    def _checkpoint(self, logs: dict[str, float], progress: Progress) -> None:
        """Look at the dev set, keep the best weights, save."""
        step = self.checkpoints.step
        scores, translations = self.dev_set.evaluate()
        # The last update may have spoilt the weights: its own loss cannot tell.
        check_finite(scores["dev_loss"], step, " on the dev set")
        best = self._keep_if_best(scores, translations, step)
        self.checkpoints.seconds.assign(progress.seconds)
        # Before the checkpoint: a record too many is dropped on resuming, a missing one is lost.
        self.journal.record(
            {
                "step": step,
                "seconds": round(progress.seconds, 1),
                "tokens_per_second": round(progress.tokens_per_second),
                "learning_rate": float(self.model.optimizer.learning_rate),
                "train_loss": logs["loss"],
                "train_perplexity": perplexity(logs["log_loss"]),
                **scores,
            }
        )
        self.checkpoints.save()
        self.journal.line(f"checkpoint at step {step}: {told(scores)}{' (best)' if best else ''}")

    def _keep_if_best(self, scores: Scores, translations: list[str], step: int) -> bool:
        score = merit(scores)
        if score <= float(self.checkpoints.best_score.numpy()):
            return False
        self.run.save_best(self.model)
        if translations:
            self.run.write_dev_translations(translations)
        self.checkpoints.best_score.assign(score)
        self.checkpoints.best_step.assign(step)
        return True

    def _finish(self, progress: Progress) -> None:
        """Average the last checkpoints; keep the average if it translates best."""
        step = self.checkpoints.step
        self.model.set_weights(self.checkpoints.average())
        scores, translations = self.dev_set.evaluate()
        best = self._keep_if_best(scores, translations, step)
        averaged = len(self.checkpoints.averaged())
        self.journal.record({"step": step, "averaged": averaged, **scores})
        self.journal.line(
            f"average of the last {averaged} checkpoints: {told(scores)}"
            + (" (best)" if best else f"; step {self.checkpoints.best_step.numpy()} stays best")
        )
        self.journal.line(f"done: {step} steps in {duration(progress.seconds)}, {self.run.path}")

    def _describe(self) -> None:
        devices = self.model.distribute_strategy.num_replicas_in_sync
        self.journal.line(
            f"{self.model.count_params():,} parameters, {len(self._prepared.train):,} pairs, "
            f"{self._train_plan.batches_per_epoch} batches an epoch, "
            f"{devices} device{'s' if devices > 1 else ''}"
        )


class _AtCheckpoint(keras.callbacks.Callback):
    """Calls a function where `fit` ends an epoch."""

    def __init__(self, action: Callable[[dict[str, float]], None]) -> None:
        super().__init__()
        self._action = action

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Call it with the epoch's metrics."""
        self._action(dict(logs))


def _build(config: Config) -> TranslationModel:
    """The model with its optimizer; call it in the strategy's scope."""
    train: TrainConfig = config.train
    dtype = "float32" if train.precision == "float32" else "mixed_bfloat16"
    model = transformer.build(config.model, dtype, TranslationModel, train.recompute)
    schedule = NoamSchedule(config.model.d_model, train.warmup_steps, train.learning_rate_factor)
    optimizer = keras.optimizers.Adam(
        schedule, train.adam_beta_1, train.adam_beta_2, train.adam_epsilon
    )
    model.configure(optimizer, train.label_smoothing, train.jit)
    return model
