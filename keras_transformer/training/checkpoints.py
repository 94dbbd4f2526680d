"""Checkpoints: everything that a run needs to go on, and the average of the last ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import system
from keras_transformer.errors import UserError

# What TensorFlow raises on reading files that are cut short, changed, or of another model.
_UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, IndexError, AssertionError, KeyError)


class CheckpointError(UserError):
    """A checkpoint that cannot be written or read."""


class Checkpoints:
    """The last checkpoints of a run.

    Keras' own `BackupAndRestore` begins the epoch again, and writes over the only backup;
    here the step count says where in the data a run goes on, and a checkpoint appears whole
    or not at all, beside the earlier ones.

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
        # Made by asking for it, and looked for on restoring.
        self._checkpoint.save_counter.assign(0)

    @property
    def step(self) -> int:
        """Optimizer steps taken."""
        return int(self._model.optimizer.iterations.value.numpy())

    def save(self) -> None:
        """Write a checkpoint of this step; TensorFlow writes aside and renames.

        Raises:
            CheckpointError: It cannot be written; the earlier ones stay.
        """
        prefix = self._directory / f"step-{self.step}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._checkpoint.write(str(prefix))
        except (tf.errors.OpError, OSError) as error:
            self.clear_away()
            raise CheckpointError(
                f"{self._directory}: cannot write the checkpoint of step {self.step}: "
                f"{_reason(error)}"
            ) from error
        *_, newest = there = self.there()
        # One more than are averaged, should the newest turn out to be damaged.
        kept = {newest, *self._regular(there)[-self._keep - 1 :]}
        for step in set(there) - kept:
            self._remove(step)

    def restore_latest(
        self, log: Callable[[str], None] | None = None, begin_again: bool = False
    ) -> bool:
        """Go back to the last checkpoint that is whole, if there is one; later ones go.

        Args:
            log: Told of each one that is damaged.
            begin_again: Whether to do without any where none is whole.

        Raises:
            CheckpointError: All are damaged, or the last belongs to another model.
        """
        there = self.there()
        if not there:
            return False
        damaged = []
        for step in reversed(there):
            damage = self._damage(step)
            if damage is None:
                break
            damaged.append(f"{self._path(step)}: damaged: {damage}")
        else:
            if not begin_again:
                raise CheckpointError("; ".join(damaged))
            for each, line in zip(reversed(there), damaged, strict=True):
                if log:
                    log(f"{line}; beginning again")
                self._remove(each)
            return False
        try:
            self._checkpoint.restore(self._path(step)).assert_consumed()
        except _UNREADABLE as error:
            raise CheckpointError(
                f"{self._path(step)}: does not fit the network of this run: {_reason(error)}"
            ) from error
        for line in damaged:
            if log:
                log(f"{line}; going back to step {step}")
        for later in there[there.index(step) + 1 :]:
            self._remove(later)
        return True

    def clear_away(self) -> None:
        """Remove what a kill or a full disk in the midst of writing left behind."""
        whole = {f"step-{step}" for step in self.there()}
        for path in self._directory.glob("step-*"):
            # step-8_temp/, or step-8.data-00000-of-00001 without its step-8.index
            if path.is_dir() or re.split(r"[._]", path.name)[0] not in whole:
                system.remove(path)

    def average(self) -> list[np.ndarray]:
        """The mean of the last ``keep`` checkpoints' weights (section 6.1).

        Returns:
            Arrays in the order of `get_weights`.

        Raises:
            CheckpointError: One of them cannot be read.
        """
        paths = [self._path(step) for step in self.averaged()]
        sums = [np.zeros(weight.shape, np.float64) for weight in self._model.weights]
        for path in paths:
            try:
                reader = tf.train.load_checkpoint(path)
                for i, total in enumerate(sums):
                    total += reader.get_tensor(f"weights/{i}/.ATTRIBUTES/VARIABLE_VALUE")
            except _UNREADABLE as error:
                raise CheckpointError(
                    f"{path}: cannot be read: {_reason(error)}. Without its files the average "
                    "is that of the others"
                ) from error
        return [(total / len(paths)).astype(np.float32) for total in sums]

    def averaged(self) -> list[int]:
        """The steps that ``average`` takes: the last ones, the very last in any case."""
        *earlier, last = self.there()
        return [*self._regular(earlier), last][-self._keep :]

    def there(self) -> list[int]:
        """Steps of the checkpoints on disk, oldest first."""
        names = (path.name for path in self._directory.glob("step-*.index"))
        matches = (re.fullmatch(r"step-(\d+)\.index", name) for name in names)
        return sorted(int(match[1]) for match in matches if match)

    def _regular(self, steps: list[int]) -> list[int]:
        return [step for step in steps if step % self._every == 0]

    def _path(self, step: int) -> str:
        return str(self._directory / f"step-{step}")

    def _damage(self, step: int) -> str | None:
        """What is wrong with a checkpoint; TensorFlow compares the checksum of each tensor."""
        try:
            reader = tf.train.load_checkpoint(self._path(step))
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        except _UNREADABLE as error:
            return _reason(error)
        return None

    def _remove(self, step: int) -> None:
        # The index first: without it the rest is no checkpoint.
        for path in sorted(self._directory.glob(f"step-{step}.*"), key=_index_first):
            path.unlink(missing_ok=True)


def _index_first(path: Path) -> bool:
    return path.suffix != ".index"


def _reason(error: Exception) -> str:
    """The first line of what TensorFlow says, without what it says of its own insides."""
    text = (getattr(error, "message", None) or str(error)).strip()
    if not text:
        return type(error).__name__
    return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\]$", "", text.splitlines()[0])
