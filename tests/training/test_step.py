from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from keras_transformer.training.step import TranslationModel

SMALL = ModelConfig(
    source_vocabulary=20,
    target_vocabulary=20,
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


def stream(batches: Any) -> tf.data.Dataset:
    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=({"source": ids, "target": ids}, ids)
    )


def model(rate: float = 0.5) -> TranslationModel:
    keras.utils.set_random_seed(1)
    built = transformer.build(SMALL, model_class=TranslationModel)
    built.configure(keras.optimizers.SGD(rate), smoothing=0.1, jit=False)
    return built


def trained_weights(strategy: tf.distribute.Strategy) -> list[np.ndarray]:
    with strategy.scope():
        built = model()
    built.fit(stream([batch(*some) for some in BATCHES]), shuffle=False, verbose=0)
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


def test_the_reported_loss_is_over_all_tokens_of_all_batches() -> None:
    built = model()
    data = [batch(*some) for some in BATCHES]
    sums = [built.token_loss(*some, training=False) for some in data]
    logs = built.evaluate(stream(data), verbose=0, return_dict=True)
    tokens = sum(float(some.tokens) for some in sums)
    assert tokens == 8 + 2 + 2
    assert logs["loss"] == pytest.approx(sum(float(s.loss) for s in sums) / tokens, rel=1e-6)
    assert logs["log_loss"] == pytest.approx(
        sum(float(s.log_loss) for s in sums) / tokens, rel=1e-6
    )


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


# Logical devices must be set up before TensorFlow starts, hence a process of its own.
TWO_DEVICES = """
import json, sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import importlib.util
spec = importlib.util.spec_from_file_location("steps", sys.argv[1])
steps = importlib.util.module_from_spec(spec)
spec.loader.exec_module(steps)
from keras_transformer.training.distribution import strategy
chosen = strategy()
weights = steps.trained_weights(chosen)
print(json.dumps([chosen.num_replicas_in_sync, [w.tolist() for w in weights]]))
"""


def test_two_devices_give_the_weights_of_one() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES, __file__],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    replicas, weights = json.loads(done.stdout.splitlines()[-1])
    assert replicas == 2
    for ours, theirs in zip(trained_weights(tf.distribute.get_strategy()), weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
