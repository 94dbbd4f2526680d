from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.training.checkpoints import Checkpoints


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
    for value in (100.0, 1.0, 4.0):  # the first is no longer kept
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
    with pytest.raises(ValueError, match=r"[Ss]hape"):
        Checkpoints(tmp_path, other, keep=1).restore_latest()
