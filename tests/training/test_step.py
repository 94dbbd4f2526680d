from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.cli.workers import free_ports
from keras_transformer.config import ModelConfig
from keras_transformer.data.batches import Shards
from keras_transformer.model import transformer
from keras_transformer.training.distribution import Distribution, DistributionError, slurm_places
from keras_transformer.training.optimizer import Reduced
from keras_transformer.training.step import StepOptions, TranslationModel

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


def dealt(batches: Any, shards: Shards) -> Iterator[Any]:
    """As `data.batches.dataset` does it: row by row, a row of padding where none is left."""
    for source, labels in batches:
        for shard in range(shards.first, shards.first + shards.count):
            rows = slice(shard, None, shards.total)
            yield batch(source[rows] or [[0]], labels[rows] or [[0]])


def stream(batches: Any) -> tf.data.Dataset:
    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=({"source": ids, "target": ids}, ids)
    )


class ReducedSGD(Reduced, keras.optimizers.SGD):
    """Unlike Adam it tells a gradient from twice the gradient."""


def model(rate: float = 0.5, **options: Any) -> TranslationModel:
    keras.utils.set_random_seed(1)
    built = transformer.build(SMALL, model_class=TranslationModel)
    built.configure(ReducedSGD(rate), StepOptions(smoothing=0.1, **options))
    return built


def trained_weights(distribution: Distribution, **options: Any) -> list[np.ndarray]:
    with distribution.strategy.scope():
        built = model(**options)
    data = distribution.strategy.distribute_datasets_from_function(
        lambda _: stream(list(dealt(BATCHES, distribution.shards)))
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
    assert history["gradient_norm"][0] > 0.1  # that of before
    norm = np.sqrt(sum(np.sum(np.square(change)) for change in changes))
    assert norm == pytest.approx(0.01, rel=1e-4)


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


# The same update, however the batch is spread


@pytest.fixture(scope="module")
def whole() -> list[np.ndarray]:
    """One device, all at once."""
    return trained_weights(Distribution(), clip_norm=0.5)


def assert_close(ours: list[Any], theirs: list[np.ndarray]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("micro_batches", [2, 3, 5])
def test_micro_batches_give_the_same(whole: list[np.ndarray], micro_batches: int) -> None:
    """Five micro-batches of three rows: some are empty."""
    assert_close(trained_weights(Distribution(), clip_norm=0.5, micro_batches=micro_batches), whole)


def test_dropout_differs_from_step_to_step_and_piece_to_piece_and_can_be_repeated() -> None:
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


# Devices must be set up before TensorFlow starts, hence processes of their own.
ELSEWHERE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("steps", sys.argv[1])
steps = importlib.util.module_from_spec(spec)
spec.loader.exec_module(steps)
distribution = steps.Distribution(sys.argv[2])
weights = steps.trained_weights(distribution, clip_norm=0.5, micro_batches=int(sys.argv[3]))
told = distribution.broadcast_from_chief([distribution.worker + 7.0, float("nan")])
added = distribution.all_reduce_sum(steps.tf.constant([1.0, distribution.worker]))
print(json.dumps([distribution.devices, told, added.tolist(), [w.tolist() for w in weights]]))
"""


@pytest.mark.parametrize(
    ("workers", "devices", "micro_batches"), [(1, "cpu:2", 1), (1, "cpu:3", 2), (2, "cpu", 2)]
)
def test_several_devices_and_workers_give_the_same(
    whole: list[np.ndarray], workers: int, devices: str, micro_batches: int
) -> None:
    places = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    running = []
    for index in range(workers):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        if workers > 1:
            task = {"type": "worker", "index": index}
            environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": places}, "task": task})
        command = [sys.executable, "-c", ELSEWHERE, __file__, devices, str(micro_batches)]
        running.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
            )
        )
    for process in running:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-2000:]
        found, format_scores, added, weights = json.loads(output.splitlines()[-1])
        assert found == {"cpu": 1, "cpu:2": 2, "cpu:3": 3}[devices] * workers
        assert format_scores[0] == 7.0
        assert math.isnan(format_scores[1])
        assert added == [workers, sum(range(workers))]
        assert_close(weights, whole)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("tpu", "expected auto, cpu, gpu, cpu:N or gpu:N, got tpu"),
        ("cpu:0", "expected auto, cpu, gpu, cpu:N or gpu:N, got cpu:0"),
        ("gpu:9", "expected at most the 0 GPUs, got gpu:9"),
        ("cpu:7", "TensorFlow has started with 1 CPU devices already"),
    ],
)
def test_devices_that_are_not_there(devices: str, message: str) -> None:
    if devices.startswith("gpu") and tf.config.list_physical_devices("GPU"):
        pytest.skip("there are GPUs")
    with pytest.raises(DistributionError, match=message):
        Distribution(devices)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"cluster": {}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_a_cluster_that_makes_no_sense(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(DistributionError, match="TF_CONFIG: expected .*, got "):
        Distribution()


def test_the_tasks_of_a_slurm_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_STEP_NODELIST", "a[1-2],b")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2),1")
    assert slurm_places() == ["a1:8888", "a1:8889", "a2:8888", "a2:8889", "b:8888"]
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2")
    with pytest.raises(
        DistributionError, match=r"SLURM_STEP_NODELIST, .* got 'a\[1-2\],b' and '2'"
    ):
        slurm_places()
