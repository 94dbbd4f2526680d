"""Gradient checkpointing, compared with plain layers: results, gradients, memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.encoder import Encoder, EncoderLayer
from keras_transformer.model.kernels.dropout import Dropout, dropout_seed
from keras_transformer.model.kernels.gradient_checkpointing import checkpointed
from tests.support.model_options import ALL

SOURCE = tf.constant([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [6, 6, 10, 3, 0], [7, 3, 0, 0, 0]])
TARGET = tf.constant([[2, 7, 5, 9], [2, 8, 0, 0], [2, 11, 4, 0], [2, 5, 5, 0]])
INPUTS = {"source": SOURCE, "target": TARGET}
FACTORS = tf.random.stateless_normal([4, 4, 13], [3, 4])
SEED = tf.constant([1, 2])


def _models(
    tiny_config: Any, scatter: Any, dtype: str = "float32", **fields: Any
) -> list[keras.Model]:
    """Return two networks with equal weights, without and with gradient checkpointing."""
    config = tiny_config(**{"encoder_layers": 2, "decoder_layers": 2} | fields)
    models = [
        transformer.build(config, dtype, gradient_checkpointing=again) for again in (False, True)
    ]
    scatter(models[0].weights)
    models[1].set_weights(models[0].get_weights())
    for one, other in zip(models[0].variables, models[1].variables, strict=True):
        other.assign(one)  # the generators' state too
    return models


def _gradients(model: keras.Model, inputs: Any, factors: tf.Tensor) -> list[tf.Tensor]:
    """Return the loss and its gradients, from a backward pass outside of `dropout_seed`."""
    with tf.GradientTape() as tape:
        with dropout_seed(SEED):
            logits = model(inputs, training=True)
        loss = tf.reduce_sum(logits * factors)
    gradients = tape.gradient(loss, [weight.value for weight in model.weights])
    return [loss, *map(tf.convert_to_tensor, gradients)]


def _assert_close(actual: Any, expected: Any, tolerance: float = 5e-5) -> None:
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("attention", ["plain", pytest.param("blockwise", marks=pytest.mark.slow)])
@pytest.mark.parametrize("norm", ["post", pytest.param("pre", marks=pytest.mark.slow)])
def test_gradients_equal_those_without_checkpointing(
    norm: str, attention: str, tiny_config: Any, scatter: Any
) -> None:
    fields: dict[str, Any] = {"norm": norm, "attention": attention, "positions": "alibi"}
    run = _gradients
    if attention == "blockwise":  # whose loops are slow outside of a graph
        run = tf.function(_gradients)
        fields |= {"encoder_layers": 1, "decoder_layers": 1}
    models = _models(tiny_config, scatter, **fields)
    expected, found = (run(model, INPUTS, FACTORS) for model in models)
    _assert_close(found, expected)
    # With other dropout masks they would be far off.
    with dropout_seed(SEED + 1):
        other = tf.reduce_sum(models[1](INPUTS, training=True) * FACTORS)
    assert abs(other - expected[0]) > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["plain", "blockwise"])
def test_gradients_with_all_options_of_the_model(
    attention: str, tiny_config: Any, scatter: Any
) -> None:
    fields = ALL | {"attention": attention, "encoder_layers": 1, "decoder_layers": 1}
    models = _models(tiny_config, scatter, **fields)
    expected, found = (tf.function(_gradients)(model, INPUTS, FACTORS) for model in models)
    _assert_close(found, expected)


_MEMORY = """
import tensorflow as tf
from keras_transformer.config import ModelConfig
from keras_transformer.model.encoder import Encoder

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

config = ModelConfig(encoder_layers=6, d_model=64, heads=4, d_ff=256)
mask = tf.ones([8, 1, 1, 512], tf.bool)
peaks = []
for again in (True, False):
    encoder = Encoder(config, gradient_checkpointing=again)
    encoder.build((None, None, 64))

    @tf.function
    def step(x, mask):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(x, mask, training=True)[..., 0])
        return tape.gradient(loss, [weight.value for weight in encoder.weights])

    step(tf.ones([1, 4, 64]), mask[:1, ..., :4])
    peaks.append(peak())
    step(tf.random.stateless_normal([8, 512, 64], [1, 2]), mask)
    peaks.append(peak())
print(peaks[1] - peaks[0], peaks[3] - peaks[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_step_needs_a_fraction_of_the_memory() -> None:
    """A second pass that is merged with the first or runs early would save nothing."""
    command = [sys.executable, "-c", _MEMORY]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    again, kept = map(int, done.stdout.split()[-2:])
    assert again < 0.6 * kept


@pytest.mark.slow
def test_it_works_with_xla(tiny_config: Any, scatter: Any) -> None:
    models = _models(tiny_config, scatter, attention="blockwise")
    expected, found = (
        tf.function(_gradients, jit_compile=True)(model, INPUTS, FACTORS) for model in models
    )
    _assert_close(found, expected)


@pytest.mark.slow
def test_mixed_precision(tiny_config: Any, scatter: Any) -> None:
    models = _models(tiny_config, scatter, "mixed_bfloat16")
    expected, found = (tf.function(_gradients)(model, INPUTS, FACTORS) for model in models)
    assert all(gradient.dtype == tf.float32 for gradient in found)
    _assert_close(found, expected, 0.01)


@pytest.mark.slow
def test_micro_batches_in_a_loop_with_the_tape_inside(tiny_config: Any, scatter: Any) -> None:
    @tf.function
    def summed(model: keras.Model) -> list[tf.Tensor]:
        def body(i: tf.Tensor, *sums: tf.Tensor) -> Any:
            part = {name: ids[2 * i : 2 * i + 2] for name, ids in INPUTS.items()}
            found = _gradients(model, part, FACTORS[2 * i : 2 * i + 2])
            return [i + 1, *(one + more for one, more in zip(sums, found, strict=True))]

        start = [tf.zeros([]), *(tf.zeros(weight.shape) for weight in model.weights)]
        return tf.while_loop(lambda i, *_: i < 2, body, [tf.constant(0), *start])[1:]

    expected, found = (summed(model) for model in _models(tiny_config, scatter))
    _assert_close(found, expected)


def test_without_a_dropout_seed_the_second_pass_has_the_same_masks(tiny_config: Any) -> None:
    layer = EncoderLayer(tiny_config(dropout=0.5))
    layer.build((None, None, 8))
    x = tf.random.stateless_normal([2, 5, 8], [1, 2])
    mask = tf.ones([2, 1, 1, 5], tf.bool)
    before = [(variable, variable.numpy()) for variable in layer.variables]
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = checkpointed(layer, x, mask)
    # Between the passes, other calls draw numbers and a step changes the weights.
    assert (checkpointed(layer, x, mask) != output).numpy().any()
    for weight in layer.weights:
        weight.assign(weight + 0.1)
    upstream = FACTORS[:2, 0, :5, None] * tf.ones([2, 5, 8])
    found = tape.gradient(output, x, upstream)
    for variable, value in before:
        variable.assign(value)
    first = next(part for part in layer._flatten_layers() if isinstance(part, Dropout))
    with tf.GradientTape() as tape, dropout_seed(first.draw()):
        tape.watch(x)
        again = layer(x, mask, training=True)
    np.testing.assert_array_equal(again, output)
    expected = tape.gradient(again, x, upstream)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_layer_without_dropout_draws_no_random_numbers(tiny_config: Any) -> None:
    config = tiny_config(dropout=0.0, attention_dropout=0.0, feed_forward_dropout=0.0)
    layer = EncoderLayer(config)
    layer.build((None, None, 8))
    x = tf.random.stateless_normal([2, 5, 8], [1, 2])
    mask = tf.ones([2, 1, 1, 5], tf.bool)
    np.testing.assert_allclose(checkpointed(layer, x, mask), layer(x, mask), atol=1e-6)


def test_outside_of_training_it_is_an_ordinary_call(tiny_config: Any, scatter: Any) -> None:
    plain, again = _models(tiny_config, scatter)
    np.testing.assert_array_equal(again(INPUTS), plain(INPUTS))


@pytest.mark.slow
def test_replicas(tiny_config: Any, scatter: Any) -> None:
    """Two CPU devices, in a process of their own: TensorFlow splits a CPU only at its start."""
    done = subprocess.run([sys.executable, "-c", _REPLICAS], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    assert float(done.stdout.split()[-1]) < 1e-5


_REPLICAS = """
import numpy as np
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from keras_transformer.model.kernels.dropout import dropout_seed

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
config = ModelConfig(13, 13, 2, 2, 8, 2, d_ff=12, dropout=0.3, attention="blockwise")
source, target = tf.constant([[5, 6, 7, 3], [9, 4, 3, 0]]), tf.constant([[2, 7, 5], [2, 8, 0]])
with strategy.scope():
    models = [transformer.build(config, gradient_checkpointing=again) for again in (False, True)]
    for one, other in zip(models[0].variables, models[1].variables):
        other.assign(one)

def step(model):
    # Each replica has its own sentence.
    row = tf.distribute.get_replica_context().replica_id_in_sync_group
    with dropout_seed(tf.stack([1, row])), tf.GradientTape() as tape:
        inputs = {"source": source[row : row + 1], "target": target[row : row + 1]}
        loss = tf.reduce_sum(tf.math.log_softmax(model(inputs, training=True))[..., 5])
    gradients = tape.gradient(loss, [w.value for w in model.weights])
    replica = tf.distribute.get_replica_context()
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, [loss, *dense])

@tf.function
def run(model):
    return strategy.run(step, [model])

expected, found = (tf.nest.map_structure(lambda x: strategy.experimental_local_results(x)[1],
                                         run(model)) for model in models)
assert any(np.abs(x).max() > 0.1 for x in found[1:])
print(max(np.abs(x - y).max() for x, y in zip(found, expected)))
"""


def test_configuration_includes_gradient_checkpointing(tiny_config: Any) -> None:
    encoder = Encoder(tiny_config(), gradient_checkpointing=True)
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(encoder))
    assert twin.gradient_checkpointing
    # A configuration saved without the option.
    old = encoder.get_config()
    del old["gradient_checkpointing"]
    assert not Encoder.from_config(old).gradient_checkpointing
