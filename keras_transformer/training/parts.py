"""The parts of a training run, built from its configuration and data."""

from __future__ import annotations

import dataclasses
import math

import keras

from keras_transformer.config import TrainConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.prepared import Prepared
from keras_transformer.run import Run
from keras_transformer.training.best_weights import BestWeights
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.dev_set import DevSet
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.reporting.reporter import Reporter
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.state import TrainingState
from keras_transformer.training.step import TranslationModel, build_model


@dataclasses.dataclass(frozen=True)
class TrainingParts:
    """Model, data, checkpoints, dev set and reporting of a training run."""

    run: Run
    run_log: RunLog
    distribution: Distribution
    prepared: Prepared
    """The data of the run."""
    plan: BatchPlan
    """The batches of the training pairs."""
    model: TranslationModel
    """The model with its optimizer."""
    state: TrainingState
    checkpoints: Checkpoints
    best: BestWeights
    dev_set: DevSet
    reporter: Reporter

    @property
    def config(self) -> TrainConfig:
        """The section ``train`` of the configuration."""
        return self.run.config.train

    @property
    def micro_batches(self) -> int:
        """Micro-batches per device and batch."""
        return micro_batches(self.config, self.distribution.devices)


def micro_batches(config: TrainConfig, devices: int) -> int:
    """Return the number of micro-batches per device and batch.

    Args:
        config: ``batch_tokens`` and ``micro_batch_tokens`` are used.
        devices: Number of devices of all workers.
    """
    limit = config.micro_batch_tokens
    return math.ceil(config.batch_tokens / devices / limit) if limit else 1


def build_parts(
    run: Run, prepared: Prepared, run_log: RunLog, distribution: Distribution
) -> TrainingParts:
    """Build the model and everything around it.

    Args:
        run: The run folder.
        prepared: Its data.
        run_log: Its records.
        distribution: The devices and workers.
    """
    config = run.config.train
    # Before any tensorflow-text tokenizer exists: seeding invalidates them.
    keras.utils.set_random_seed(config.seed)
    with distribution.strategy.scope():
        model = build_model(run.config, micro_batches(config, distribution.devices))
    state = TrainingState(model.optimizer, model.loss_scale)
    dev_set = DevSet(model, prepared, run.config)
    return TrainingParts(
        run=run,
        run_log=run_log,
        distribution=distribution,
        prepared=prepared,
        plan=BatchPlan(
            prepared.train.source_lengths,
            prepared.train.target_lengths,
            config.batch_tokens,
            config.seed,
            fixed_shapes=config.jit,
        ),
        model=model,
        state=state,
        checkpoints=Checkpoints(
            run.path / "checkpoints", model, state, config.average, config.checkpoint_every
        ),
        best=BestWeights(run, config, state, writes=distribution.chief),
        dev_set=dev_set,
        reporter=Reporter(run, run_log, dev_set, writes=distribution.chief),
    )
