"""Checkpoints: everything that a run needs to go on, and the average of the last ones."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.errors import UserError

# What TensorFlow raises on reading files that are cut short or belong to another model.
_UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, IndexError, AssertionError)


class CheckpointError(UserError):
    """A checkpoint that cannot be written or read."""


class Checkpoints:
    """The last checkpoints of a run.

    Keras' own `BackupAndRestore` leaves out the state of dropout and the place in the
    data; here both come back, the place through the step count.

    Args:
        directory: Where they lie.
        model: A built model whose optimizer is built.
        keep: How many of the last ones to average.
        every: Steps between two of them. A stop may leave one that lies in between; once
            the run goes on, that one no longer counts.
    """

    def __init__(self, directory: Path, model: keras.Model, keep: int, every: int = 1) -> None:
        self._directory = directory
        self._model = model
        self._keep = keep
        self._every = every
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
        # One more than are averaged, for the one in between.
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, str(directory), max_to_keep=keep + 1, checkpoint_name="step"
        )

    @property
    def step(self) -> int:
        """Optimizer steps taken."""
        return int(self._model.optimizer.iterations.value.numpy())

    def save(self) -> None:
        """Write a checkpoint of this step; TensorFlow writes aside and renames.

        Raises:
            CheckpointError: It cannot be written; the earlier ones stay.
        """
        try:
            self._manager.save(checkpoint_number=self.step)
        except tf.errors.OpError as error:
            raise CheckpointError(
                f"{self._directory}: cannot write the checkpoint of step {self.step}: "
                f"{_reason(error)}"
            ) from error

    def restore_latest(self) -> bool:
        """Go back to the last checkpoint, if there is one.

        Raises:
            CheckpointError: It is damaged, or belongs to another model.
        """
        paths = self._there()
        if not paths:
            return False
        try:
            self._checkpoint.restore(paths[-1]).assert_consumed()
        except _UNREADABLE as error:
            raise CheckpointError(
                f"{paths[-1]}: cannot be read: {_reason(error)}. Remove its files to go on "
                "from the one before it"
            ) from error
        return True

    def average(self) -> list[np.ndarray]:
        """The mean of the last ``keep`` checkpoints' weights (section 6.1).

        Returns:
            Arrays in the order of `get_weights`.

        Raises:
            CheckpointError: One of them cannot be read.
        """
        paths = self.averaged()
        sums = [np.zeros(weight.shape, np.float64) for weight in self._model.weights]
        for path in paths:
            try:
                reader = tf.train.load_checkpoint(path)
                for i, total in enumerate(sums):
                    total += reader.get_tensor(f"weights/{i}/.ATTRIBUTES/VARIABLE_VALUE")
            except _UNREADABLE as error:
                raise CheckpointError(f"{path}: cannot be read: {_reason(error)}") from error
        return [(total / len(paths)).astype(np.float32) for total in sums]

    def averaged(self) -> list[str]:
        """The checkpoints that ``average`` takes: the last ones, the very last in any case."""
        *earlier, last = self._there()
        regular = [path for path in earlier if int(path.rpartition("-")[2]) % self._every == 0]
        return [*regular, last][-self._keep :]

    def _there(self) -> list[str]:
        """Prefixes of the checkpoints that nobody has removed, oldest first."""
        return [path for path in self._manager.checkpoints if Path(f"{path}.index").exists()]


def _reason(error: Exception) -> str:
    """The first line of what TensorFlow says."""
    text = getattr(error, "message", None) or str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
