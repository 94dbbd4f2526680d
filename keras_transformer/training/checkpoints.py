"""Checkpoints: everything that a run needs to go on, and the average of the last ones."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf


class Checkpoints:
    """The last checkpoints of a run.

    Keras' own `BackupAndRestore` leaves out the state of dropout and the place in the
    data; here both come back, the place through the step count.

    Args:
        directory: Where they lie.
        model: A built model whose optimizer is built.
        keep: How many of the last ones to keep.
    """

    def __init__(self, directory: Path, model: keras.Model, keep: int) -> None:
        self._model = model
        self.best_score = tf.Variable(-np.inf, dtype=tf.float64)
        self.best_step = tf.Variable(0, dtype=tf.int64)
        self.seconds = tf.Variable(0.0, dtype=tf.float64)
        self._checkpoint = tf.train.Checkpoint(
            weights=[variable.value for variable in model.weights],
            optimizer=[variable.value for variable in model.optimizer.variables],
            seeds=[
                variable.value
                for variable in model.variables
                if variable.path.endswith("seed_generator_state")
            ],
            best_score=self.best_score,
            best_step=self.best_step,
            seconds=self.seconds,
        )
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, str(directory), max_to_keep=keep, checkpoint_name="step"
        )

    @property
    def step(self) -> int:
        """Optimizer steps taken."""
        return int(self._model.optimizer.iterations.value.numpy())

    def save(self) -> None:
        """Write a checkpoint of this step; TensorFlow writes aside and renames."""
        self._manager.save(checkpoint_number=self.step)

    def restore_latest(self) -> bool:
        """Go back to the last checkpoint, if there is one."""
        latest = self._manager.latest_checkpoint
        if latest is None:
            return False
        self._checkpoint.restore(latest).assert_consumed()
        return True

    def average(self) -> list[np.ndarray]:
        """The mean of the kept checkpoints' weights (section 6.1), in `get_weights` order."""
        paths = self._manager.checkpoints
        sums = [np.zeros(weight.shape, np.float64) for weight in self._model.weights]
        for path in paths:
            reader = tf.train.load_checkpoint(path)
            for i, total in enumerate(sums):
                total += reader.get_tensor(f"weights/{i}/.ATTRIBUTES/VARIABLE_VALUE")
        return [(total / len(paths)).astype(np.float32) for total in sums]
