"""State shared by the parts of a training run."""

from __future__ import annotations

import dataclasses
import math

import keras

from keras_transformer.training.loss_scale import LossScale


@dataclasses.dataclass
class TrainingState:
    """Progress of a run; each field has one writer.

    Checkpoints save and restore ``seconds``, ``best_score``, ``best_step`` and the optimizer
    with its step count. The other fields belong to the running process.

    Args:
        optimizer: The built optimizer, which counts the updates.
    """

    optimizer: keras.optimizers.Optimizer
    loss_scale: LossScale | None = None
    """The loss scale of float16, which counts skipped updates. Replaced by `Checkpoints` when it
    restores a run that had one before."""
    seconds: float = 0.0
    """Training time up to the last checkpoint, by the chief's clock, equal on all workers.
    Written by `Trainer` when it saves."""
    best_score: float = -math.inf
    """First part of the selection score of the best weights so far: BLEU, or the negative dev
    loss. Written by `BestWeights`."""
    best_loss: float = math.inf
    """Dev loss of the best weights so far, restored from metrics.jsonl. Written by
    `BestWeights`."""
    best_step: int = 0
    """Step of the last checkpoint that was the best so far; averages do not count.
    Written by `BestWeights`."""
    signal: int = 0
    """Number of the stop signal that this process has received, or 0. Written by the handler
    in `stopping`."""
    interrupted: bool = False
    """True if any worker has received a stop signal, as agreed after the last step. Written by
    `Progress`."""
    unsaved: bool = False
    """True if steps were taken since the last checkpoint. Set by `Progress`, cleared by
    `Trainer` when it saves."""

    @property
    def step(self) -> int:
        """Steps taken since the beginning of the run, one for each batch.

        The optimizer counts its updates. A skipped update is a step too, but not one of the
        learning rate schedule.
        """
        skipped = int(self.loss_scale.skipped.numpy()) if self.loss_scale else 0
        return int(self.optimizer.iterations.value.numpy()) + skipped
