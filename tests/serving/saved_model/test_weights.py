"""Stored weights: an export computes with them, also after the model's own have changed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from keras_transformer.serving.saved_model.weights import Weights

INPUTS = {
    "source": np.array([[5, 6, 7, 3], [8, 3, 0, 0]], np.int32),
    "target": np.array([[2, 9, 10], [2, 11, 0]], np.int32),
}


def network(dtype: str = "float32"):
    config = ModelConfig(
        source_vocabulary_size=300,
        target_vocabulary_size=300,
        encoder_layers=1,
        decoder_layers=1,
        d_model=64,
        heads=2,
        d_ff=128,
    )
    return transformer.build(config, dtype)


def test_stored_values_are_used() -> None:
    model = network()
    weights = Weights(model)
    before = model(INPUTS).numpy()
    for weight in model.weights:
        weight.assign(tf.zeros_like(weight))
    with weights.applied():
        np.testing.assert_array_equal(model(INPUTS), before)
    assert not np.array_equal(model(INPUTS), before)


def test_no_variable_of_keras_is_tracked() -> None:
    model = network()
    weights = Weights(model)
    theirs = {id(weight.value) for weight in model.weights}
    assert not any(id(variable) in theirs for variable in weights.variables)
    assert weights.bytes == 4 * model.count_params()
    # One for all biases and gains, one for each matrix.
    assert len(weights.variables) == 1 + sum(len(weight.shape) == 2 for weight in model.weights)


def test_bfloat16_takes_half_and_is_near() -> None:
    whole, half = network(), network("bfloat16")
    for ours, theirs in zip(half.weights, whole.weights, strict=True):
        ours.assign(theirs)
    weights = Weights(half, "bfloat16")
    assert weights.bytes == 2 * whole.count_params()
    with weights.applied():
        logits = half(INPUTS)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, whole(INPUTS), atol=0.15)


def test_int8_takes_a_quarter_and_is_near() -> None:
    model = network()
    before = model(INPUTS).numpy()
    weights = Weights(model, "int8")
    vectors = sum(weight.shape[0] for weight in model.weights if len(weight.shape) == 1)
    matrices = model.count_params() - vectors
    scales = weights.bytes - matrices - 4 * vectors
    assert 0 < scales < 0.1 * matrices
    with weights.applied():
        np.testing.assert_allclose(model(INPUTS), before, atol=0.1)


@pytest.mark.parametrize("axis", [0, 1])
def test_int8_rounds_to_127_steps_of_the_better_axis(axis) -> None:
    # One row or column is 100 times as large: scales along the other axis lose everything.
    matrix = np.random.default_rng(1).uniform(-1, 1, (64, 64)).astype(np.float32)
    matrix[(slice(None), 3) if axis == 0 else (3, slice(None))] *= 100
    dense = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(64, use_bias=False)])
    dense.weights[0].assign(matrix)
    weights = Weights(dense, "int8")
    with weights.applied():
        found = dense(np.eye(64, dtype=np.float32)).numpy()
    step = np.abs(matrix).max(axis=axis, keepdims=True) / 127
    assert (np.abs(found - matrix) <= 0.5001 * step).all()
