from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.cli.workers import free_ports
from keras_transformer.compat.keras import ReducedGradients
from keras_transformer.config import ModelConfig
from keras_transformer.data.batches import Shards
from keras_transformer.model import transformer
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.loss import label_smoothed_cross_entropy
from keras_transformer.training.step import StepOptions, TranslationModel
from tests.support.model_options import ALL

SMALL = ModelConfig(
    source_vocabulary_size=20,
    target_vocabulary_size=20,
    encoder_layers=1,
    decoder_layers=1,
    d_model=8,
    heads=2,
    d_ff=16,
    dropout=0.0,
    attention_dropout=0.0,
)

# Very unequal token counts; an odd number of rows, and rows without any token.
BATCHES = [
    (
        [[5, 6, 7, 3], [8, 3, 0, 0], [9, 3, 0, 0]],
        [[5, 6, 7, 8, 3], [9, 3, 0, 0, 0], [3, 0, 0, 0, 0]],
    ),
    ([[5, 3], [0, 0]], [[7, 3], [0, 0]]),
    ([[4, 5, 6, 7, 8, 3]], [[9, 3]]),
]


def batch(source: list[list[int]], labels: list[list[int]]) -> Any:
    real = np.array(labels, np.int32)
    target = np.where(real != 0, np.roll(real, 1, axis=1), 0)
    target[:, 0] = np.where(real[:, 0] != 0, 2, 0)
    return {"source": np.array(source, np.int32), "target": target}, real


def sharded(batches: Any, shards: Shards) -> Iterator[Any]:
    """Shard as `data.batches.dataset` does: row by row, with a row of padding if none is left."""
    for source, labels in batches:
        for shard in range(shards.first, shards.first + shards.count):
            rows = slice(shard, None, shards.total)
            yield batch(source[rows] or [[0]], labels[rows] or [[0]])


def stream(batches: Any) -> tf.data.Dataset:
    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=({"source": ids, "target": ids}, ids)
    )


@pytest.mark.slow
@pytest.mark.parametrize("embeddings", ["tied", "decoder", "untied"])
@pytest.mark.parametrize("jit", [False, True])
def test_gradients_with_all_options_equal_those_of_the_plain_loss(
    embeddings: str, jit: bool
) -> None:
    config = dataclasses.replace(SMALL, **(ALL | {"embeddings": embeddings}))
    built = transformer.build(config, model_class=TranslationModel)
    built.configure(ReducedSGD(0.5), StepOptions(smoothing=0.1, jit=jit))
    bias = transformer.projection(built).output_bias
    bias.assign(np.random.default_rng(2).normal(size=bias.shape))
    inputs, labels = batch(*BATCHES[0])
    variables = [weight.value for weight in built.trainable_variables]
    assert any(variable is bias.value for variable in variables)
    found = []
    for plain in (False, True):
        with tf.GradientTape() as tape:
            if plain:
                loss = label_smoothed_cross_entropy(built(inputs), tf.constant(labels), 0.1)
            else:
                loss = built.token_loss(inputs, tf.constant(labels), training=False)
        gradients = tape.gradient(loss.loss, variables)
        found.append([*loss, *map(tf.convert_to_tensor, gradients)])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


class ReducedSGD(ReducedGradients, keras.optimizers.SGD):
    """SGD, whose update depends on the scale of the gradient, unlike Adam's."""


def model(rate: float = 0.5, **options: Any) -> TranslationModel:
    keras.utils.set_random_seed(1)
    built = transformer.build(SMALL, model_class=TranslationModel)
    built.configure(ReducedSGD(rate), StepOptions(smoothing=0.1, **options))
    return built


def trained_weights(distribution: Distribution, **options: Any) -> list[np.ndarray]:
    with distribution.strategy.scope():
        built = model(**options)
    data = distribution.strategy.distribute_datasets_from_function(
        lambda _: stream(list(sharded(BATCHES, distribution.shards)))
    )
    built.fit(data, steps_per_epoch=len(BATCHES), shuffle=False, verbose=0)
    return [np.asarray(weight) for weight in built.get_weights()]


def test_one_update_is_the_gradient_of_the_mean_over_real_tokens() -> None:
    built = model(rate=1.0)
    inputs, labels = batch(*BATCHES[0])
    with tf.GradientTape() as tape:
        logits = built(inputs, training=True)
        wanted = 0.9 * tf.one_hot(labels, 20) + 0.1 / 20
        real = tf.cast(labels != 0, tf.float32)
        by_token = -tf.reduce_sum(wanted * tf.nn.log_softmax(logits), axis=-1) * real
        loss = tf.reduce_sum(by_token) / 8  # 5 + 2 + 1 real tokens
    variables = [variable.value for variable in built.trainable_variables]
    gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
    expected = [
        variable - gradient for variable, gradient in zip(variables, gradients, strict=True)
    ]
    history = built.fit(stream([(inputs, labels)]), shuffle=False, verbose=0).history
    for ours, theirs in zip(variables, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert history["loss"][0] == pytest.approx(float(loss), rel=1e-6)
    assert history["source_tokens"] == [4 + 2 + 2]
    assert history["target_tokens"] == [8]
    norm = np.sqrt(sum(np.sum(np.square(gradient)) for gradient in gradients))
    assert history["gradient_norm"][0] == pytest.approx(norm, rel=1e-5)


def test_clipping_is_by_the_norm_of_the_whole_gradient() -> None:
    built = model(rate=1.0, clip_norm=0.01)
    before = built.get_weights()
    history = built.fit(stream([batch(*BATCHES[0])]), shuffle=False, verbose=0).history
    changes = [after - was for after, was in zip(built.get_weights(), before, strict=True)]
    assert history["gradient_norm"][0] > 0.1  # before clipping
    norm = np.sqrt(sum(np.sum(np.square(change)) for change in changes))
    assert norm == pytest.approx(0.01, rel=1e-4)


def test_xla_refuses_several_micro_batches() -> None:
    with pytest.raises(ValueError, match="micro_batches: expected 1 with jit, got 2"):
        model(jit=True, micro_batches=2)


def test_a_batch_without_any_token_changes_nothing() -> None:
    built = model()
    before = built.get_weights()
    nothing = np.zeros((2, 3), np.int32)
    built.fit(stream([({"source": nothing, "target": nothing}, nothing)]), verbose=0)
    for ours, theirs in zip(built.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_one_trace_serves_all_shapes() -> None:
    built = model()
    traces = []
    original = built.token_loss

    def counted(*arguments: Any, **options: Any) -> Any:
        traces.append(1)
        return original(*arguments, **options)

    built.token_loss = counted  # type: ignore[method-assign]
    built.fit(stream([batch(*some) for some in BATCHES * 2]), shuffle=False, verbose=0)
    assert len(traces) == 1


def test_saving_has_each_weight_once(tmp_path: Any) -> None:
    built = model()
    assert len({variable.path for variable in built.weights}) == len(built.weights)
    built.save_weights(tmp_path / "x.weights.h5")
    plain = transformer.build(SMALL)
    plain.load_weights(tmp_path / "x.weights.h5")
    for ours, theirs in zip(plain.get_weights(), built.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# The update does not depend on devices and micro-batches


@pytest.fixture(scope="module")
def whole() -> list[np.ndarray]:
    """Weights after training on one device with one micro-batch per step."""
    return trained_weights(Distribution(), clip_norm=0.5)


def assert_close(ours: list[Any], theirs: list[np.ndarray]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("micro_batches", [2, 5])
def test_micro_batches_give_the_same_update(whole: list[np.ndarray], micro_batches: int) -> None:
    """Five micro-batches of three rows: some are empty."""
    assert_close(trained_weights(Distribution(), clip_norm=0.5, micro_batches=micro_batches), whole)


def test_dropout_differs_between_steps_and_micro_batches_and_can_be_repeated() -> None:
    config = dataclasses.replace(SMALL, dropout=0.5)
    keras.utils.set_random_seed(1)
    built = transformer.build(config, model_class=TranslationModel)
    built.configure(ReducedSGD(0.0), StepOptions(micro_batches=2))  # the weights stay
    # Both micro-batches of each of the three steps have the same row.
    same = batch([[5, 6, 7, 3]] * 2, [[5, 6, 7, 3]] * 2)
    losses: list[float] = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda number, logs: losses.append(logs["loss"])
    )
    built.fit(stream([same] * 3), shuffle=False, verbose=0, callbacks=[callback])
    assert len(set(losses)) == 3
    alone = float(built.token_loss(*batch([[5, 6, 7, 3]], [[5, 6, 7, 3]]), training=False).loss)
    assert losses[0] != pytest.approx(alone / 4)
    built.optimizer.iterations.assign(1)
    built.fit(stream([same]), shuffle=False, verbose=0, callbacks=[callback])
    assert losses[3] == losses[1]


# Moving statistics of batch normalization, the only weights that no gradient updates


BATCH_NORMALIZATION = dataclasses.replace(SMALL, ablation="batch_normalization")


def batch_normalized(**options: Any) -> TranslationModel:
    """Return a model whose trainable weights never change."""
    keras.utils.set_random_seed(1)
    checkpointing = options.pop("gradient_checkpointing", False)
    built = transformer.build(
        BATCH_NORMALIZATION,
        model_class=TranslationModel,
        gradient_checkpointing=checkpointing,
    )
    built.configure(ReducedSGD(0.0), StepOptions(**options))
    return built


def statistics(built: keras.Model) -> list[np.ndarray]:
    return [weight.numpy() for weight in built.non_trainable_weights]


@pytest.mark.slow
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_a_step_updates_the_moving_statistics_once(gradient_checkpointing: bool) -> None:
    inputs, labels = batch(*BATCHES[0])
    eager = batch_normalized()
    before = statistics(eager)
    eager(inputs, training=True)
    expected = statistics(eager)
    # Two normalizations in an encoder layer and three in a decoder layer, two statistics each.
    assert len(expected) == 2 * (2 + 3)
    assert all((one != other).any() for one, other in zip(expected, before, strict=True))
    built = batch_normalized(gradient_checkpointing=gradient_checkpointing)
    built.fit(stream([(inputs, labels)]), shuffle=False, verbose=0)
    assert_close(statistics(built), expected)
    # Without a token, nothing changes.
    nothing = np.zeros((2, 3), np.int32)
    built.fit(stream([({"source": nothing, "target": nothing}, nothing)]), verbose=0)
    assert_close(statistics(built), expected)


@pytest.mark.slow
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_micro_batches_average_their_statistics(gradient_checkpointing: bool) -> None:
    """By number of target tokens: 1 of the first micro-batch, 2 of the second."""
    parts = [batch([[5, 6, 3]], [[3]]), batch([[7, 3]], [[5, 3]])]
    values = []
    for inputs, _ in parts:
        eager = batch_normalized()
        eager(inputs, training=True)
        values.append(statistics(eager))
    expected = [(one + 2 * other) / 3 for one, other in zip(*values, strict=True)]
    built = batch_normalized(micro_batches=2, gradient_checkpointing=gradient_checkpointing)
    whole = batch([[5, 6, 3], [7, 3, 0]], [[3, 0], [5, 3]])
    built.fit(stream([whole]), shuffle=False, verbose=0)
    assert_close(statistics(built), expected)


@pytest.mark.slow
def test_xla_updates_the_moving_statistics() -> None:
    built, plain = batch_normalized(jit=True), batch_normalized()
    for each in (built, plain):
        each.fit(stream([batch(*BATCHES[0])]), shuffle=False, verbose=0)
    assert_close(statistics(built), statistics(plain))


# In processes of their own, since devices must be configured before TensorFlow starts.


def statistics_in_process(devices: str) -> list[np.ndarray]:
    """Return the moving statistics after a step of two rows on these devices."""
    distribution = Distribution(devices)
    with distribution.strategy.scope():
        built = batch_normalized()
    rows = [([[5, 6, 3], [7, 3, 0]], [[3, 0], [5, 3]])]
    data = distribution.strategy.distribute_datasets_from_function(
        lambda _: stream(list(sharded(rows, distribution.shards)))
    )
    built.fit(data, steps_per_epoch=1, shuffle=False, verbose=0)
    return statistics(built)


@pytest.mark.slow
def test_replicas_average_their_statistics(processes: Any) -> None:
    """As two micro-batches of one device: each has one row."""
    with ProcessPoolExecutor(1, processes, max_tasks_per_child=1) as pool:
        found = pool.submit(statistics_in_process, "cpu:2").result(300)
    built = batch_normalized(micro_batches=2)
    built.fit(stream([batch([[5, 6, 3], [7, 3, 0]], [[3, 0], [5, 3]])]), shuffle=False, verbose=0)
    assert_close(found, statistics(built))


def train_with_xla(devices: str) -> list[np.ndarray]:
    """Return the weights after training with a compiled step on these devices."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    return trained_weights(Distribution(devices), clip_norm=0.5, jit=True)


@pytest.mark.slow
@pytest.mark.parametrize("devices", ["cpu", "cpu:2"])
def test_xla_gives_the_same_update(whole: list[np.ndarray], processes: Any, devices: str) -> None:
    """On several devices it compiles all up to the all-reduce."""
    with ProcessPoolExecutor(1, processes, max_tasks_per_child=1) as pool:
        assert_close(pool.submit(train_with_xla, devices).result(300), whole)


def train_in_process(devices: str, splits: list[int], **environment: str) -> dict[str, Any]:
    """Train on these devices with each number of micro-batches; return the results."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    os.environ |= environment
    distribution = Distribution(devices)
    weights = [
        trained_weights(distribution, clip_norm=0.5, micro_batches=count) for count in splits
    ]
    worker = distribution.worker
    return {
        "devices": distribution.devices,
        "broadcast": distribution.broadcast_from_chief([worker + 7.0, math.nan]),
        "sum": distribution.all_reduce_sum(tf.constant([1.0, worker])).tolist(),
        "any": distribution.any_worker([worker == 0, False]),
        "weights": weights,
    }


@pytest.mark.slow
def test_several_devices_and_workers_give_the_same_update(
    whole: list[np.ndarray], processes: Any
) -> None:
    """Three devices of one process, and two processes as two workers."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    clusters = [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}})
        for i in (0, 1)
    ]
    with ProcessPoolExecutor(3, processes, max_tasks_per_child=1) as pool:
        devices = pool.submit(train_in_process, "cpu:3", [1, 2])
        workers = [
            pool.submit(train_in_process, "cpu", [2], TF_CONFIG=cluster) for cluster in clusters
        ]
        alone, *together = (future.result(300) for future in (devices, *workers))
    assert alone["devices"] == 3
    assert alone["sum"] == [1.0, 0.0]  # a worker with several devices counts once
    for result in together:
        assert result["devices"] == 2
        assert result["sum"] == [2.0, 1.0]
        assert result["any"] == [True, False]
    for result in (alone, *together):
        assert result["broadcast"][0] == 7.0
        assert math.isnan(result["broadcast"][1])
        for weights in result["weights"]:
            assert_close(weights, whole)
