from __future__ import annotations

import resource
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.training.checkpoints import CheckpointError, Checkpoints
from keras_transformer.training.state import TrainingState


def model() -> keras.Model:
    built = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1), keras.layers.Dropout(0.5)])
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(built.trainable_variables)
    built.compile(optimizer=optimizer, loss="mse")
    return built


def checkpoints_of(directory: Path, built: keras.Model, keep: int, every: int = 1) -> Checkpoints:
    return Checkpoints(directory, built, TrainingState(built.optimizer), keep, every)


def advance(built: keras.Model, steps: int = 1) -> None:
    for _ in range(steps):
        built.train_on_batch(np.ones((4, 2)), np.ones((4, 1)))


def test_average_is_the_mean_of_the_kept_checkpoints(tmp_path: Path) -> None:
    built = model()
    checkpoints = checkpoints_of(tmp_path, built, keep=2)
    for value in (100.0, 1.0, 4.0):  # the first is not among the last two
        built.set_weights([np.full((2, 1), value), np.full((1,), 2 * value)])
        built.optimizer.iterations.assign_add(1)
        checkpoints.save()
    kernel, bias = checkpoints.average()
    np.testing.assert_array_equal(kernel, [[2.5], [2.5]])
    np.testing.assert_array_equal(bias, [5.0])


def test_the_whole_state_is_restored(tmp_path: Path) -> None:
    first = model()
    state = TrainingState(first.optimizer)
    checkpoints = Checkpoints(tmp_path, first, state, keep=1)
    advance(first, 3)
    state.best_score, state.best_step, state.seconds = 12.5, 2, 7.0
    state.signal, state.unsaved = 15, True
    checkpoints.save()
    advance(first, 3)

    second = model()
    restored = TrainingState(second.optimizer)
    assert Checkpoints(tmp_path, second, restored, keep=1).restore_latest()
    assert restored.step == 3
    assert (restored.best_score, restored.best_step, restored.seconds) == (12.5, 2, 7.0)
    assert (restored.signal, restored.unsaved) == (0, False)  # state of the other process only
    # The moments and the state of dropout are back too: the same steps give the same weights.
    advance(second, 3)
    for ours, theirs in zip(second.get_weights(), first.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_without_a_checkpoint_nothing_is_restored(tmp_path: Path) -> None:
    built = model()
    before = built.get_weights()
    assert not checkpoints_of(tmp_path, built, keep=1).restore_latest()
    for ours, theirs in zip(built.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    checkpoints_of(tmp_path, model(), keep=1).save()
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(other.trainable_variables)
    other.compile(optimizer=optimizer, loss="mse")
    with pytest.raises(CheckpointError, match=r"step-0: does not fit .*[Ss]hape"):
        checkpoints_of(tmp_path, other, keep=1).restore_latest()


def saved(directory: Path, *steps: int, keep: int = 2, every: int = 2) -> Checkpoints:
    """Return checkpoints of these steps, whose weights all equal the step."""
    built = model()
    checkpoints = checkpoints_of(directory, built, keep, every)
    for step in steps:
        built.set_weights([np.full((2, 1), step), np.full((1,), step)])
        built.optimizer.iterations.assign(step)
        checkpoints.save()
    return checkpoints


@pytest.mark.parametrize(
    ("steps", "mean"),
    [
        ((2, 4, 5), (4 + 5) / 2),  # the run ended there: the end counts
        ((2, 4, 5, 6), (4 + 6) / 2),  # the run continued: as if it had never stopped
    ],
)
def test_average_with_a_checkpoint_in_between(
    tmp_path: Path, steps: tuple[int, ...], mean: float
) -> None:
    np.testing.assert_array_equal(saved(tmp_path, *steps).average()[1], [mean])


def damage(directory: Path, step: int) -> None:
    [data] = directory.glob(f"step-{step}.data*")
    data.write_bytes(data.read_bytes()[:20])


def test_the_latest_readable_checkpoint_is_restored(tmp_path: Path) -> None:
    saved(tmp_path, 2, 4, 6)
    damage(tmp_path, 6)
    checkpoints = checkpoints_of(tmp_path, model(), keep=2)
    log: list[str] = []
    assert checkpoints.restore_latest(log.append)
    [line] = log
    assert "step-6: damaged: " in line
    assert line.endswith("; going back to step 4")
    assert checkpoints._state.step == 4
    assert checkpoints.steps() == [2, 4]  # step 6 will be repeated


def test_if_all_are_damaged_each_is_named_and_kept(tmp_path: Path) -> None:
    saved(tmp_path, 2, 4)
    for step in (2, 4):
        damage(tmp_path, step)
    with pytest.raises(CheckpointError, match=r"step-4: damaged: .*; .*step-2: damaged: "):
        checkpoints_of(tmp_path, model(), keep=2).restore_latest()
    with pytest.raises(CheckpointError, match=r"step-2: cannot be read"):
        checkpoints_of(tmp_path, model(), keep=2).average()
    assert checkpoints_of(tmp_path, model(), keep=2).steps() == [2, 4]


def test_a_restart_deletes_damaged_checkpoints(tmp_path: Path) -> None:
    saved(tmp_path, 2)
    damage(tmp_path, 2)
    log: list[str] = []
    checkpoints = checkpoints_of(tmp_path, model(), keep=2)
    assert not checkpoints.restore_latest(log.append, allow_restart=True)
    [line] = log
    assert "step-2: damaged: " in line
    assert line.endswith("; restarting from the beginning")
    assert checkpoints.steps() == []


def test_incomplete_checkpoints_are_removed(tmp_path: Path) -> None:
    saved(tmp_path, 2)
    before = {path.name for path in tmp_path.iterdir()}
    (tmp_path / "step-4_temp").mkdir()
    (tmp_path / "step-4_temp" / "part").write_text("x")
    (tmp_path / "step-4.data-00000-of-00001").write_text("x")
    checkpoints = checkpoints_of(tmp_path, model(), keep=2)
    assert checkpoints.steps() == [2]
    checkpoints.remove_incomplete()
    assert {path.name for path in tmp_path.iterdir()} == before


def test_checkpoints_of_stops_displace_no_regular_one(tmp_path: Path) -> None:
    """The average at the end is that of a run without stops."""
    checkpoints = saved(tmp_path, 2, 4, 5)
    assert checkpoints.steps() == [2, 4, 5]
    for step in (7, 8):
        checkpoints._model.optimizer.iterations.assign(step)
        checkpoints.save()
    assert checkpoints.steps() == [2, 4, 8]
    assert checkpoints.averaged_steps() == [4, 8]


def test_a_full_disk_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # greatest file size in bytes
    try:
        checkpoints._model.optimizer.iterations.assign(4)
        with pytest.raises(CheckpointError, match=r"cannot write the checkpoint of step 4: [^{]*$"):
            checkpoints.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = checkpoints_of(tmp_path, model(), keep=2)
    assert again.restore_latest()
    assert again._state.step == 2
