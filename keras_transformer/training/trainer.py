"""A whole training: data, model, `fit`, checkpoints, the weights that translate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from keras_transformer.config import Config, SearchConfig, TrainConfig, to_dict
from keras_transformer.data.batches import BatchPlan, dataset
from keras_transformer.data.prepare import Prepared
from keras_transformer.data.store import EncodedStore
from keras_transformer.evaluation.metrics import bleu
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run, RunError
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.distribution import strategy
from keras_transformer.training.progress import (
    Journal,
    Progress,
    check_finite,
    duration,
    perplexity,
)
from keras_transformer.training.schedule import NoamSchedule
from keras_transformer.training.step import TranslationModel

# What may differ when a run goes on: nothing that its weights or its data depend on.
RESUMABLE = ("max_steps", "max_minutes", "dev_sentences", "log_every")


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
    if resume:
        run = Run.open(path)
        check_resumable(run.config, config)
        run = dataclasses.replace(run, config=config)
        journal = Journal(path)
        prepared = run.prepared(journal.line)
    else:
        run, prepared, journal = _begin(config, path)
    return Training(run, prepared, journal).execute()


def _begin(config: Config, path: Path) -> tuple[Run, Prepared, Journal]:
    """Make the run folder; what is said before it exists is logged once it does."""
    lines: list[str] = []
    run, prepared = Run.create(path, config, lines.append)
    journal = Journal(path)
    for line in lines:
        journal.line(line)
    return run, prepared, journal


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
            run.path / "checkpoints", self.model, keep=config.train.average
        )
        self._train_plan = self._plan(prepared.train)
        self._dev_plan = self._plan(prepared.dev)
        pairs = prepared.dev_pairs[: config.train.dev_sentences]
        self._dev_sources = [pair.source for pair in pairs]
        self._dev_references = [pair.target for pair in pairs]
        search = SearchConfig(beam=1, max_extra=config.search.max_extra)
        self._translator = Translator(self.model, prepared.tokenizer, search, config.data)

    def _plan(self, store: EncodedStore) -> BatchPlan:
        return BatchPlan(
            store.source_lengths,
            store.target_lengths,
            self._config.batch_tokens,
            self._config.seed,
            fixed_shapes=self._config.jit,
        )

    def execute(self) -> Run:
        """Train to the limits, average, keep what translates best."""
        if self.checkpoints.restore_latest():
            self.journal.forget_after(self.checkpoints.step)
            self.journal.line(f"going on after step {self.checkpoints.step}")
        self._describe()
        progress = Progress(self._config, self.journal, float(self.checkpoints.seconds.numpy()))
        if not self._finished():
            self._fit(progress)
        self._finish(progress)
        return self.run

    def _finished(self) -> bool:
        seconds, limit = float(self.checkpoints.seconds.numpy()), self._config.max_minutes * 60
        return self.checkpoints.step >= self._config.max_steps or 0 < limit <= seconds

    def _fit(self, progress: Progress) -> None:
        step, every = self.checkpoints.step, self._config.checkpoint_every
        self.model.fit(
            dataset(self._prepared.train, self._train_plan, step),
            shuffle=False,
            # An epoch of `fit` is the stretch between two checkpoints.
            steps_per_epoch=every,
            initial_epoch=step // every,
            epochs=math.ceil(self._config.max_steps / every),
            callbacks=[progress, _AtCheckpoint(lambda logs: self._checkpoint(logs, progress))],
            verbose=0,
        )

    def _checkpoint(self, logs: dict[str, float], progress: Progress) -> None:
        """Look at the dev set, keep the best weights, save."""
        step = self.checkpoints.step
        check_finite(logs["loss"], step)
        scores, translations = self._evaluate()
        best = self._keep_if_best(scores, translations, step)
        self.checkpoints.seconds.assign(progress.seconds)
        self.checkpoints.save()
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
        self.journal.line(f"checkpoint at step {step}: {_told(scores)}{' (best)' if best else ''}")

    def _evaluate(self) -> tuple[dict[str, float], list[str]]:
        """Dev loss and perplexity, and BLEU with the translations where asked for."""
        logs = self.model.evaluate(
            dataset(self._prepared.dev, self._dev_plan, repeat=False),
            # Said beforehand, so that Keras does not take the end for a shortage.
            steps=self._dev_plan.batches_per_epoch,
            verbose=0,
            return_dict=True,
        )
        scores = {
            "dev_loss": logs["loss"],
            "dev_perplexity": perplexity(logs["log_loss"]),
        }
        if not self._dev_sources:
            return scores, []
        translations = [item.text for item in self._translator.translate(self._dev_sources)]
        language = self.run.config.data.target
        scores["dev_bleu"] = bleu(translations, [self._dev_references], language)
        return scores, translations

    def _keep_if_best(self, scores: dict[str, float], translations: list[str], step: int) -> bool:
        score = scores.get("dev_bleu", -scores["dev_loss"])
        if score <= float(self.checkpoints.best_score.numpy()):
            return False
        self.run.save_best(self.model)
        self.run.write_dev_translations(translations)
        self.checkpoints.best_score.assign(score)
        self.checkpoints.best_step.assign(step)
        return True

    def _finish(self, progress: Progress) -> None:
        """Average the last checkpoints; keep the average if it translates best."""
        step = self.checkpoints.step
        self.model.set_weights(self.checkpoints.average())
        scores, translations = self._evaluate()
        best = self._keep_if_best(scores, translations, step)
        self.journal.record({"step": step, "averaged": self._config.average, **scores})
        self.journal.line(
            f"average of the last checkpoints: {_told(scores)}"
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


def _told(scores: dict[str, float]) -> str:
    names = {"dev_loss": "dev loss", "dev_perplexity": "dev perplexity", "dev_bleu": "dev BLEU"}
    return ", ".join(f"{names[name]} {value:.2f}" for name, value in scores.items())


def _build(config: Config) -> TranslationModel:
    """The model with its optimizer; call it in the strategy's scope."""
    train: TrainConfig = config.train
    dtype = "float32" if train.precision == "float32" else "mixed_bfloat16"
    model = transformer.build(config.model, dtype, TranslationModel)
    schedule = NoamSchedule(config.model.d_model, train.warmup_steps, train.learning_rate_factor)
    optimizer = keras.optimizers.Adam(
        schedule, train.adam_beta_1, train.adam_beta_2, train.adam_epsilon
    )
    model.configure(optimizer, train.label_smoothing, train.jit)
    return model
