"""Checkpoints for an exact resume, and the average of the last ones."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import system
from keras_transformer.errors import UserError
from keras_transformer.training.loss_scale import LossScale
from keras_transformer.training.state import TrainingState
from keras_transformer.utf8_paths import utf8_path

# TensorFlow's errors on truncated or altered files, and on checkpoints of another model.
_UNREADABLE = (
    tf.errors.OpError,
    OSError,
    ValueError,
    RuntimeError,
    IndexError,
    AssertionError,
    KeyError,
)


class CheckpointError(UserError):
    """A checkpoint that cannot be written or read."""


class Checkpoints:
    """The last checkpoints of a run.

    Unlike Keras' `BackupAndRestore`, which restarts the epoch and overwrites its only backup, a
    resume continues in the middle of an epoch: the step count gives the position in the data.
    Checkpoints are written atomically, beside the earlier ones.

    Args:
        directory: Folder of the checkpoints.
        model: A built model with the optimizer of ``state``.
        state: State of the training, saved and restored with the model.
        keep: Number of checkpoints to average.
        every: Steps between two regular checkpoints. A stop may leave one in between, which
            the average ignores once the run has continued.
    """

    def __init__(
        self,
        directory: Path,
        model: keras.Model,
        state: TrainingState,
        keep: int,
        every: int = 1,
    ) -> None:
        self._directory = directory
        self._model = model
        self._state = state
        self._keep = keep
        self._every = every
        self._saved_state = {
            "best_score": tf.Variable(-math.inf, dtype=tf.float64),
            "best_step": tf.Variable(0, dtype=tf.int64),
            "seconds": tf.Variable(0.0, dtype=tf.float64),
        }

    def _checkpoint(self, loss_scale: LossScale | None) -> tf.train.Checkpoint:
        """Return the object that saves and restores all variables, a loss scale if there is one."""
        model = self._model
        checkpoint = tf.train.Checkpoint(
            weights=[variable.value for variable in model.weights],
            optimizer=[variable.value for variable in model.optimizer.variables],
            # Keras does not count the states of random generators among `weights`.
            seeds=[
                variable.value
                for variable in model.variables
                if variable.path.endswith("seed_generator_state")
            ],
            **self._saved_state,
            **({} if loss_scale is None else {"loss_scale": loss_scale.variables}),
        )
        # Reading the property creates the counter, which `restore` expects to exist.
        checkpoint.save_counter.assign(0)
        return checkpoint

    def save(self) -> None:
        """Write a checkpoint of the current step and remove those that are no longer needed.

        Raises:
            CheckpointError: The checkpoint cannot be written; the earlier ones stay.
        """
        step = self._state.step
        for name, variable in self._saved_state.items():
            variable.assign(getattr(self._state, name))
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            # TensorFlow writes to temporary files and renames them, the index last.
            self._checkpoint(self._state.loss_scale).write(self._path(step))
        except (tf.errors.OpError, OSError) as error:
            self.remove_incomplete()
            raise CheckpointError(
                f"{self._directory}: cannot write the checkpoint of step {step}: {_reason(error)}"
            ) from error
        self.remove_surplus()

    def remove_surplus(self) -> None:
        """Remove the checkpoints that are no longer needed.

        A process that is killed right after its last checkpoint leaves one to the next process.
        """
        steps = self.steps()
        # One more than the average needs, in case the newest is damaged.
        kept = {*steps[-1:], *self._regular(steps)[-self._keep - 1 :]}
        for old in set(steps) - kept:
            self._remove(old)

    def restore_latest(
        self, log: Callable[[str], None] = lambda line: None, allow_restart: bool = False
    ) -> bool:
        """Restore the latest readable checkpoint and delete newer ones.

        Args:
            log: Called with a line about each damaged checkpoint.
            allow_restart: If none is readable, delete all instead of raising an error.

        Returns:
            Whether a checkpoint was restored.

        Raises:
            CheckpointError: All are damaged, or the latest readable one is of another model.
        """
        damaged: dict[int, str] = {}
        for step in reversed(self.steps()):
            damage = self._damage(step)
            if damage is None:
                break
            damaged[step] = f"{self._path(step)}: damaged: {damage}"
        else:
            if damaged and not allow_restart:
                raise CheckpointError(
                    f"{'; '.join(damaged.values())}. Copy the run folder again, or train a new run"
                )
            for old, line in damaged.items():
                log(f"{line}; restarting from the beginning")
                self._remove(old)
            return False
        self._restore(step)
        for newer, line in damaged.items():
            log(f"{line}; going back to step {step}")
            self._remove(newer)
        return True

    def _restore(self, step: int) -> None:
        try:
            scaled = any(name.startswith("loss_scale/") for name in self._variables(step))
            if scaled and self._state.loss_scale is None:
                # The run was in float16 before: its skipped updates count as steps for ever.
                self._state.loss_scale = LossScale()
            checkpoint = self._checkpoint(self._state.loss_scale if scaled else None)
            checkpoint.restore(self._path(step)).assert_consumed()
        except _UNREADABLE as error:
            raise CheckpointError(
                f"{self._path(step)}: does not fit the network of this run: {_reason(error)}. "
                "Resume with the model and the optimizer of the run, or train a new run"
            ) from error
        for name, variable in self._saved_state.items():
            setattr(self._state, name, variable.numpy().item())

    def remove_incomplete(self) -> None:
        """Remove the files of checkpoints that a killed process or a full disk left incomplete."""
        complete = {f"step-{step}" for step in self.steps()}
        for path in self._directory.glob("step-*"):
            # step-8_temp/, or step-8.data-00000-of-00001 without its step-8.index
            if path.is_dir() or re.split(r"[._]", path.name)[0] not in complete:
                system.remove(path)

    def average(self) -> list[np.ndarray]:
        """Return the mean of the last ``keep`` checkpoints' weights (section 6.1).

        Returns:
            Float32 arrays in the order of `get_weights`.

        Raises:
            CheckpointError: One of the checkpoints cannot be read.
        """
        paths = [self._path(step) for step in self.averaged_steps()]
        sums = [np.zeros(weight.shape, np.float64) for weight in self._model.weights]
        for path in paths:
            try:
                reader = self._reader(path)
                for i, total in enumerate(sums):
                    total += reader.get_tensor(f"weights/{i}/.ATTRIBUTES/VARIABLE_VALUE")
            except _UNREADABLE as error:
                raise CheckpointError(
                    f"{path}: cannot be read: {_reason(error)}. Delete its files to average "
                    "the other checkpoints"
                ) from error
        return [(total / len(paths)).astype(np.float32) for total in sums]

    def averaged_steps(self) -> list[int]:
        """Return the steps that `average` uses: the last regular ones and the very last."""
        *earlier, last = self.steps()
        return [*self._regular(earlier), last][-self._keep :]

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints on disk, oldest first."""
        names = (path.name for path in self._directory.glob("step-*.index"))
        matches = (re.fullmatch(r"step-(\d+)\.index", name) for name in names)
        return sorted(int(match[1]) for match in matches if match)

    def _regular(self, steps: list[int]) -> list[int]:
        return [step for step in steps if step % self._every == 0]

    def _path(self, step: int) -> str:
        return str(utf8_path(self._directory / f"step-{step}"))

    def _reader(self, path: str) -> tf.train.CheckpointReader:
        """Open a checkpoint; TensorFlow would wait for ever for a pipe."""
        for file in Path(path).parent.glob(f"{Path(path).name}.*"):
            system.check_regular(file)
        return tf.train.load_checkpoint(path)

    def _variables(self, step: int) -> dict[str, list[int]]:
        """Return the shapes of the variables of a checkpoint, by name."""
        shapes: dict[str, list[int]] = self._reader(self._path(step)).get_variable_to_shape_map()
        return shapes

    def _damage(self, step: int) -> str | None:
        """Return why a checkpoint is damaged, or None; reading a tensor verifies its checksum."""
        try:
            reader = self._reader(self._path(step))
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        except _UNREADABLE as error:
            return _reason(error)
        return None

    def _remove(self, step: int) -> None:
        # The index first: `steps` ignores a checkpoint without it.
        files = self._directory.glob(f"step-{step}.*")
        for path in sorted(files, key=lambda path: path.suffix != ".index"):
            with contextlib.suppress(FileNotFoundError):
                system.remove(path)


def _reason(error: Exception) -> str:
    """Return the first line of an error without the names of TensorFlow's operations."""
    text = (getattr(error, "message", None) or str(error)).strip()
    if not text:
        return type(error).__name__
    return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\]$", "", text.splitlines()[0])
