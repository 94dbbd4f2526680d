from __future__ import annotations

import resource
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.training.checkpoints import CheckpointError, Checkpoints


def model() -> keras.Model:
    built = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1), keras.layers.Dropout(0.5)])
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(built.trainable_variables)
    built.compile(optimizer=optimizer, loss="mse")
    return built


def advance(built: keras.Model, steps: int = 1) -> None:
    for _ in range(steps):
        built.train_on_batch(np.ones((4, 2)), np.ones((4, 1)))


def test_average_is_the_mean_of_the_kept_ones(tmp_path: Path) -> None:
    built = model()
    checkpoints = Checkpoints(tmp_path, built, keep=2)
    for value in (100.0, 1.0, 4.0):  # the first is not among the last two
        built.set_weights([np.full((2, 1), value), np.full((1,), 2 * value)])
        built.optimizer.iterations.assign_add(1)
        checkpoints.save()
    kernel, bias = checkpoints.average()
    np.testing.assert_array_equal(kernel, [[2.5], [2.5]])
    np.testing.assert_array_equal(bias, [5.0])


def test_everything_comes_back(tmp_path: Path) -> None:
    first = model()
    checkpoints = Checkpoints(tmp_path, first, keep=1)
    advance(first, 3)
    checkpoints.best_score.assign(12.5)
    checkpoints.best_step.assign(2)
    checkpoints.seconds.assign(7.0)
    checkpoints.save()
    advance(first, 3)

    second = model()
    restored = Checkpoints(tmp_path, second, keep=1)
    assert restored.restore_latest()
    assert restored.step == 3
    assert float(restored.best_score.numpy()) == 12.5
    assert int(restored.best_step.numpy()) == 2
    assert float(restored.seconds.numpy()) == 7.0
    # The moments and the state of dropout are back too: the same steps give the same weights.
    advance(second, 3)
    for ours, theirs in zip(second.get_weights(), first.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_without_a_checkpoint_nothing_is_restored(tmp_path: Path) -> None:
    built = model()
    before = built.get_weights()
    assert not Checkpoints(tmp_path, built, keep=1).restore_latest()
    for ours, theirs in zip(built.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    Checkpoints(tmp_path, model(), keep=1).save()
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(other.trainable_variables)
    other.compile(optimizer=optimizer, loss="mse")
    with pytest.raises(CheckpointError, match=r"step-0: cannot be read: .*[Ss]hape"):
        Checkpoints(tmp_path, other, keep=1).restore_latest()


def saved(directory: Path, *steps: int, keep: int = 2, every: int = 2) -> Checkpoints:
    """Checkpoints of these steps, whose weights are all equal to the step."""
    built = model()
    checkpoints = Checkpoints(directory, built, keep, every)
    for step in steps:
        built.set_weights([np.full((2, 1), step), np.full((1,), step)])
        built.optimizer.iterations.assign(step)
        checkpoints.save()
    return checkpoints


@pytest.mark.parametrize(
    ("steps", "mean"),
    [
        ((2, 4, 5), (4 + 5) / 2),  # ended in between: the end counts
        ((2, 4, 5, 6), (4 + 6) / 2),  # went on from there: as if it had never stopped
    ],
)
def test_average_with_a_checkpoint_in_between(
    tmp_path: Path, steps: tuple[int, ...], mean: float
) -> None:
    np.testing.assert_array_equal(saved(tmp_path, *steps).average()[1], [mean])


def test_a_damaged_checkpoint_is_named_and_can_be_removed(tmp_path: Path) -> None:
    saved(tmp_path, 2, 4)
    [data] = tmp_path.glob("step-4.data*")
    data.write_bytes(data.read_bytes()[:20])
    checkpoints = Checkpoints(tmp_path, model(), 2)
    with pytest.raises(CheckpointError, match=r"step-4: cannot be read: .*Remove its files"):
        checkpoints.restore_latest()
    with pytest.raises(CheckpointError, match=r"step-4: cannot be read"):
        checkpoints.average()
    for path in tmp_path.glob("step-4.*"):
        path.unlink()
    checkpoints = Checkpoints(tmp_path, model(), 2)
    assert checkpoints.restore_latest()
    assert checkpoints.step == 2


def test_a_full_disk_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # bytes that a file may have
    try:
        checkpoints._model.optimizer.iterations.assign(4)
        with pytest.raises(CheckpointError, match="cannot write the checkpoint of step 4: "):
            checkpoints.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = Checkpoints(tmp_path, model(), 2)
    assert again.restore_latest()
    assert again.step == 2
