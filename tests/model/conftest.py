"""Fixtures for tests of the network: small models, and the layer harness."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer

_TINY: dict[str, Any] = {
    "source_vocabulary_size": 13,
    "target_vocabulary_size": 13,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "d_model": 8,
    "heads": 2,
    "d_ff": 12,
    "dropout": 0.3,
    "attention_dropout": 0.3,
    "feed_forward_dropout": 0.3,
}


_OF_THE_TRANSFORMER = ("heads", "d_ff", "attention_dropout", "feed_forward_dropout")


def _tiny_config(**fields: Any) -> ModelConfig:
    values = dict(_TINY)
    if fields.get("architecture") == "recurrent":
        values = {name: values[name] for name in values if name not in _OF_THE_TRANSFORMER}
    return ModelConfig(**(values | fields))


def _scatter(weights: list[Any]) -> None:
    """Change all weights, since a bias of 0 or a gain of 1 could hide a fault."""
    rng = np.random.default_rng(0)
    for weight in weights:
        value = weight.numpy() + rng.normal(0.0, 0.3, weight.shape)
        weight.assign(np.abs(value) if weight.path.endswith("variance") else value)


@cache
def _tiny_model(dtype: str = "float32", **fields: Any) -> keras.Model:
    model = transformer.build(_tiny_config(**fields), dtype=dtype)
    _scatter(model.weights)
    return model


@pytest.fixture(scope="session")
def tiny_config() -> Callable[..., ModelConfig]:
    """Configuration of a few hundred weights with all dropouts; fields can be overridden."""
    return _tiny_config


@pytest.fixture(scope="session")
def tiny_model() -> Callable[..., keras.Model]:
    """The model of `tiny_config`, shared by all tests with the same fields: do not change it."""
    return _tiny_model


@pytest.fixture(scope="session")
def scatter() -> Callable[[list[Any]], None]:
    """Function that changes all given weights."""
    return _scatter


Call = Callable[..., Any]


def _tensors(outputs: Any) -> list[tf.Tensor]:
    return tf.nest.flatten(outputs)


def _values(outputs: Any) -> list[np.ndarray]:
    return [tf.cast(tensor, tf.float32).numpy() for tensor in _tensors(outputs)]


def _assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    for one, other in zip(_values(actual), _values(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance * max(1.0, np.abs(other).max()))


def _check_config(layer: Any, call: Call, inputs: tuple[tf.Tensor, ...]) -> None:
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(twin) is type(layer)
    assert twin.get_config() == layer.get_config()
    call(twin, *inputs)
    twin.set_weights(layer.get_weights())
    _assert_close(call(twin, *inputs), call(layer, *inputs), 0.0)


def _any_length(tensor: tf.Tensor) -> list[int | None]:
    """Return the shape with all sizes None except the width of features."""
    shape: list[int | None] = [None] * len(tensor.shape)
    if tensor.dtype.is_floating:
        shape[-1] = tensor.shape[-1]
    return shape


def _check_graph(layer: Any, call: Call, inputs: tuple[tf.Tensor, ...]) -> None:
    signature = [tf.TensorSpec(_any_length(x), x.dtype) for x in inputs]
    graph = tf.function(lambda *x: call(layer, *x), input_signature=signature)
    _assert_close(graph(*inputs), call(layer, *inputs), 1e-6)


def _check_symbolic(layer: Any, call: Call, inputs: tuple[tf.Tensor, ...]) -> None:
    symbols = [keras.KerasTensor(_any_length(x), x.dtype.name) for x in inputs]
    for declared, actual in zip(
        _tensors(call(layer, *symbols)), _tensors(call(layer, *inputs)), strict=True
    ):
        assert keras.backend.standardize_dtype(actual.dtype) == declared.dtype
        tf.TensorShape(declared.shape).assert_is_compatible_with(actual.shape)


def _check_training_step(layer: Any, call: Call, inputs: tuple[tf.Tensor, ...]) -> None:
    before = _values(call(layer, *inputs))
    # Fixed random factors: the mean or square of a normalized output has no gradient.
    rng = np.random.default_rng(1)
    factors = [rng.normal(size=value.shape).astype("float32") for value in before]
    with tf.GradientTape() as tape:
        outputs = _tensors(call(layer, *inputs, training=True))
        loss = tf.add_n([tf.reduce_sum(o * f) for o, f in zip(outputs, factors, strict=True)])
    weights = layer.trainable_weights
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    for weight, gradient in zip(weights, gradients, strict=True):
        assert gradient is not None, f"{weight.path} has no gradient"
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all(), f"{weight.path} has a gradient that is not finite"
        assert dense.any(), f"{weight.path} has a gradient of zero"
    keras.optimizers.SGD(0.01).apply(gradients, weights)
    after = _values(call(layer, *inputs))
    assert all(np.isfinite(value).all() for value in after)
    assert any((one != other).any() for one, other in zip(before, after, strict=True))


def _check_bfloat16(layer: Any, make: Call, call: Call, inputs: tuple[tf.Tensor, ...]) -> None:
    half = make(dtype="mixed_bfloat16")
    call(half, *inputs)
    half.set_weights(layer.get_weights())
    assert all(weight.dtype == "float32" for weight in half.weights)
    # bfloat16 has a precision of 8 bits: each rounding is off by up to 1/256.
    _assert_close(call(half, *inputs), call(layer, *inputs), 0.05)


def _call(layer: Any, *inputs: Any, training: bool | None = None) -> Any:
    return layer(*inputs) if training is None else layer(*inputs, training=training)


@pytest.fixture(scope="session")
def check_layer() -> Callable[..., None]:
    """The layer harness: the checks that every layer must pass.

    ``check_layer(make, *inputs, call=...)``: ``make()`` or ``make(dtype=...)`` builds a layer,
    ``call(layer, *inputs)`` calls it, with or without ``training``. The configuration survives a
    round trip, a graph with unknown sizes equals eager execution, symbolic shapes and types equal
    real ones, a training step reaches every weight, and bfloat16 is close to float32. (Tests of
    whole models reload them in a fresh process.)
    """

    def check(make: Call, *inputs: Any, call: Call = _call) -> None:
        tensors = tuple(tf.convert_to_tensor(x) for x in inputs)
        layer = make()
        call(layer, *tensors)
        _scatter(layer.trainable_weights)
        _check_config(layer, call, tensors)
        _check_graph(layer, call, tensors)
        _check_symbolic(layer, call, tensors)
        if layer.trainable_weights:
            _check_bfloat16(layer, make, call, tensors)
            _check_training_step(layer, call, tensors)

    return check
