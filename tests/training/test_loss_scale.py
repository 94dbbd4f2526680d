"""Training in float16: the loss scale, skipped updates, and the same training as in float32."""

from __future__ import annotations

import math
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.compat.keras import ema_variables
from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.training import loss_scale, trainer
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.loss_scale import LossScale
from keras_transformer.training.optimizer import ReducedAdam
from keras_transformer.training.schedule import NoamSchedule
from keras_transformer.training.step import StepOptions, TranslationModel, loss_unit
from tests.training.helpers import (
    Reversal,
    assert_same_checkpoint,
    last_checkpoint,
    remove_checkpoints,
    with_train,
)


def state(scale: LossScale) -> list[float]:
    return [variable.numpy().item() for variable in scale.variables]


def test_the_scale_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scale, "GROWTH_INTERVAL", 2)
    scale = LossScale()
    scale.scale.assign(4.0)
    # Finite or not, then: skipped, scale, good steps, skipped so far.
    for finite, *expected in [
        (True, False, 4.0, 1, 0),
        (True, False, 8.0, 0, 0),  # doubled after two good steps
        (True, False, 8.0, 1, 0),
        (False, True, 4.0, 0, 1),
        (False, True, 2.0, 0, 2),
        (False, True, 1.0, 0, 3),
        (False, False, 1.0, 0, 4),  # at 1 it is no overflow, but an error
    ]:
        skipped = bool(scale.update(tf.constant(finite)))
        assert [skipped, *state(scale)] == expected
    scale.scale.assign(loss_scale.MAX_SCALE)
    for _ in range(2):
        scale.update(tf.constant(True))
    assert float(scale.scale) == loss_scale.MAX_SCALE


@pytest.mark.parametrize(("tokens", "unit"), [(1, 1.0), (25_000, 2.0**-15), (3_000, 2.0**-12)])
def test_the_unit_is_the_power_of_two_closest_to_the_mean(tokens: float, unit: float) -> None:
    assert loss_unit(tokens) == unit


SMALL = ModelConfig(
    source_vocabulary_size=30,
    target_vocabulary_size=30,
    encoder_layers=1,
    decoder_layers=1,
    d_model=16,
    heads=2,
    d_ff=32,
    dropout=0.1,
)
RNG = np.random.default_rng(5)
SOURCE = RNG.integers(4, 30, (6, 7)).astype(np.int32)
LABELS = RNG.integers(4, 30, (6, 5)).astype(np.int32)
LABELS[3:, 3:] = 0
TARGET = np.where(LABELS > 0, np.roll(LABELS, 1, axis=1), 0)
TARGET[:, 0] = 2


def batches(shards: int, first: int, count: int) -> tf.data.Dataset:
    def rows() -> Any:
        while True:
            for shard in range(first, first + count):
                own = slice(shard, None, shards)
                yield {"source": SOURCE[own], "target": TARGET[own]}, LABELS[own]

    ids = tf.TensorSpec((None, None), tf.int32)
    signature = ({"source": ids, "target": ids}, ids)
    return tf.data.Dataset.from_generator(rows, output_signature=signature)


def build(precision: str, micro_batches: int = 1) -> TranslationModel:
    keras.utils.set_random_seed(2)
    dtype = precision if precision == "float32" else f"mixed_{precision}"
    model = transformer.build(SMALL, dtype, TranslationModel)
    unit = loss_unit(24) if precision == "float16" else 0.0
    optimizer = ReducedAdam(
        NoamSchedule(16, 4, 0.5), 0.9, 0.98, 1e-9, use_ema=True, ema_momentum=0.5
    )
    model.configure(optimizer, StepOptions(0.1, 1, micro_batches, 1.0, loss_unit=unit))
    return model


def train(devices: str, precision: str, micro_batches: int = 1, steps: int = 4) -> Any:
    """Return the logs of each step and the weights after the last one."""
    distribution = Distribution(devices)
    with distribution.strategy.scope():
        model = build(precision, micro_batches)
    shards = distribution.shards
    data = distribution.strategy.distribute_datasets_from_function(
        lambda _: batches(shards.total, shards.first, shards.count)
    )
    found: list[dict[str, float]] = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: found.append(dict(logs))
    )
    model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[callback])
    return found, model.get_weights()


def assert_like_float32(found: Any, expected: Any) -> None:
    logs, weights = found
    for one, other in zip(logs, expected[0], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=2e-3)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=2e-2)
        assert (one["skipped"], one["loss_scale"]) == (0.0, 2.0**15)
    # Adam's step has about the size of the rate (0.06) whatever the gradient's, so elements whose
    # gradient is near 0 may differ by as much.
    for one, other in zip(weights, expected[1], strict=True):
        assert np.mean(np.abs(one - other)) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "micro_batches"), [("cpu", 1), ("cpu", 2), ("cpu:2", 2)])
def test_float16_trains_as_float32(processes: Any, devices: str, micro_batches: int) -> None:
    with ProcessPoolExecutor(1, processes, max_tasks_per_child=2) as pool:
        found, expected = (
            pool.submit(train, devices, precision, micro_batches).result(300)
            for precision in ("float16", "float32")
        )
    assert_like_float32(found, expected)


@pytest.fixture(scope="module")
def model() -> TranslationModel:
    return build("float16")


def step(model: TranslationModel) -> dict[str, float]:
    data = tf.data.Dataset.from_tensors(({"source": SOURCE, "target": TARGET}, LABELS))
    history = model.fit(data, shuffle=False, verbose=0).history
    return {name: values[0] for name, values in history.items()}


@pytest.mark.slow
def test_an_overflow_changes_nothing_but_the_scale(model: TranslationModel) -> None:
    assert step(model)["skipped"] == 0
    scale = model.loss_scale
    assert scale is not None
    updates = int(model.optimizer.iterations)
    scale.scale.assign(2.0**40)  # times any gradient, too large for float16

    def everything() -> list[np.ndarray]:
        return [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]

    before = everything()
    assert ema_variables(model.optimizer)  # the average is part of them
    logs = step(model)
    assert (logs["skipped"], logs["loss_scale"]) == (1.0, 2.0**40)
    assert not math.isfinite(logs["gradient_norm"])
    for now, was in zip(everything(), before, strict=True):
        np.testing.assert_array_equal(now, was)
    assert int(model.optimizer.iterations) == updates
    assert float(scale.scale) == 2.0**39
    assert int(scale.skipped) == 1
    # The next one goes on from there.
    scale.scale.assign(2.0**15)
    assert step(model)["skipped"] == 0
    assert int(model.optimizer.iterations) == updates + 1


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_at_scale_1_is_an_error(model: TranslationModel) -> None:
    weights = model.get_weights()
    scale = model.loss_scale
    assert scale is not None
    scale.scale.assign(1.0)
    model.trainable_variables[0].assign(np.full(weights[0].shape, np.nan))
    logs = step(model)
    model.set_weights(weights)
    assert logs["skipped"] == 0.0
    assert math.isnan(logs["gradient_norm"])


@pytest.mark.slow
def test_a_resumed_run_is_equal_to_the_last_bit(
    reversal: Reversal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first step of each run overflows. The scale is doubled after step 3, then halved.
    monkeypatch.setattr(loss_scale, "INITIAL_SCALE", 2.0**30)
    monkeypatch.setattr(loss_scale, "GROWTH_INTERVAL", 2)
    config = reversal(precision="float16", max_steps=60, checkpoint_every=20, log_every=20)
    whole = trainer.train(config, tmp_path / "whole")
    copy = Run.open(shutil.copytree(whole.path, tmp_path / "copy"))
    remove_checkpoints(copy, 40, 60)
    trainer.train(copy.config, copy.path, resume=True)
    assert_same_checkpoint(copy.path, whole.path)
    values = last_checkpoint(whole.path)
    scale, good, skipped = (
        values[f"loss_scale/{i}/.ATTRIBUTES/VARIABLE_VALUE"].item() for i in range(3)
    )
    assert skipped > 0
    assert scale < 2.0**30
    assert good < 2
    # Steps count batches, the optimizer updates.
    iterations = [v.item() for v in values.values() if v.dtype == np.int64 and v.shape == ()]
    assert 60 - skipped in iterations
    log = (whole.path / "log.txt").read_text(encoding="utf-8")
    assert "step 1: gradients above the range of float16; update skipped, loss scale 1.07" in log
    assert log.count("update skipped") == skipped


@pytest.mark.slow
def test_a_run_may_change_to_float32_and_keeps_its_steps(
    reversal: Reversal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_scale, "INITIAL_SCALE", 2.0**30)
    run = trainer.train(reversal(precision="float16", max_steps=2), tmp_path / "run")
    changed = with_train(run.config, precision="float32", max_steps=4)
    trainer.train(changed, run.path, resume=True, accept_changes=True)
    values = last_checkpoint(run.path)
    assert values["loss_scale/2/.ATTRIBUTES/VARIABLE_VALUE"] == 2  # both steps were skipped
    back = with_train(changed, precision="float16", max_steps=6)
    trainer.train(back, run.path, resume=True, accept_changes=True)
    assert (run.path / "checkpoints" / "step-6.index").exists()
