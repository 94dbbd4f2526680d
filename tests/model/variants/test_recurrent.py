"""The recurrent encoder and decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ConfigError, ModelConfig
from keras_transformer.model import transformer
from keras_transformer.model.kernels.dropout import dropout_seed
from keras_transformer.model.masks import padding_mask
from keras_transformer.model.variants.recurrent import RecurrentDecoder, RecurrentEncoder
from keras_transformer.presets import preset
from tests.model.variants.helpers import normal

# The second sentence is padded.
SOURCE = tf.constant([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]])
TARGET = tf.constant([[2, 7, 5, 9], [2, 8, 0, 0]])
MASK = padding_mask(SOURCE)


def _config(**fields: Any) -> ModelConfig:
    values = {"source_vocabulary_size": 13, "target_vocabulary_size": 13, "d_model": 8}
    layers = {"encoder_layers": 2, "decoder_layers": 2, "dropout": 0.3}
    return ModelConfig(architecture="recurrent", **(values | layers | fields))


@pytest.fixture(scope="module")
def model(scatter: Callable[..., None]) -> keras.Model:
    built = transformer.build(_config())
    scatter(built.weights)
    return built


def test_encoder(check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> RecurrentEncoder:
        return RecurrentEncoder(_config(), **options)

    check_layer(make, normal(2, 5, 8), MASK)


def test_decoder(check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> RecurrentDecoder:
        return RecurrentDecoder(_config(), **options)

    def call(layer: Any, x: Any, memory: Any, *masks: Any, **options: Any) -> Any:
        features, weights = layer(x, memory, *masks, **options, return_weights=True)
        return features, *weights

    inputs = normal(2, 4, 8), normal(2, 5, 16, seed=1), padding_mask(TARGET), MASK
    check_layer(make, *inputs, call=call)


def test_each_direction_of_the_encoder_sees_one_side() -> None:
    encoder = RecurrentEncoder(_config(encoder_layers=1))
    x = normal(2, 5, 8)
    encoded = encoder(x, MASK).numpy()
    changed = x.copy()
    changed[:, 1] += 1.0
    differs = np.abs(encoder(changed, MASK).numpy() - encoded) > 0
    forward, backward = differs[..., :8].any(axis=2), differs[..., 8:].any(axis=2)
    assert forward[0].tolist() == [False, True, True, True, True]
    assert backward[0].tolist() == [True, True, False, False, False]
    assert backward[1, :3].tolist() == [True, True, False]  # the rest is padding


def test_padding_changes_nothing(model: keras.Model) -> None:
    together = model({"source": SOURCE, "target": TARGET}).numpy()
    alone = model({"source": SOURCE[1:, :3], "target": TARGET[1:, :2]}).numpy()
    np.testing.assert_allclose(together[1:, :2], alone, atol=1e-6)
    padded = {
        "source": tf.pad(SOURCE, [[0, 0], [0, 3]]),
        "target": tf.pad(TARGET, [[0, 0], [0, 2]]),
    }
    np.testing.assert_allclose(model(padded)[:, :4], together, atol=1e-6)


def test_no_position_sees_later_ones(model: keras.Model) -> None:
    before = model({"source": SOURCE, "target": TARGET}).numpy()
    changed = tf.constant([[2, 7, 11, 9], [2, 8, 4, 4]])
    differs = (model({"source": SOURCE, "target": changed}).numpy() != before).any(axis=2)
    assert differs[0].tolist() == [False, False, True, True]
    assert differs[1].tolist() == [False, False, True, True]


def test_attention_is_over_real_tokens(model: keras.Model) -> None:
    decoder = model.get_layer("decoder")
    memory = tf.constant(normal(2, 5, 16))
    _, (weights,) = decoder(
        normal(2, 4, 8), memory, padding_mask(TARGET), MASK, return_weights=True
    )
    assert weights.shape == (2, 1, 4, 5)
    np.testing.assert_allclose(tf.reduce_sum(weights, axis=-1), 1.0, atol=1e-6)
    assert not weights.numpy()[1, :, :, 3:].any()


def test_the_first_state_is_of_the_backward_lstm_at_the_first_token(model: keras.Model) -> None:
    decoder = model.get_layer("decoder")
    memory = normal(1, 3, 16)
    states = decoder.initial_states(tf.constant(memory))
    joint = memory[0, 0, 8:] @ decoder.initial_kernel.numpy() + decoder.initial_bias.numpy()
    actual = np.concatenate([np.ravel(part) for state in states for part in state])
    np.testing.assert_allclose(actual, np.tanh(joint), atol=1e-5)


def test_the_gradient_reaches_both_ends(model: keras.Model) -> None:
    x, y = tf.constant(normal(1, 6, 8)), tf.constant(normal(1, 7, 8, seed=1))
    mask = tf.ones([1, 1, 1, 6], tf.bool)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        memory = model.get_layer("encoder")(x, mask)
        features = model.get_layer("decoder")(y, memory, tf.ones([1, 1, 1, 7], tf.bool), mask)
        last = tf.reduce_sum(features[:, -1])
    for gradient in tape.gradient(last, [x, y]):
        assert (np.abs(gradient.numpy()).max(axis=2) > 0).all()


@pytest.mark.slow
def test_dropout_is_a_function_of_the_seed(model: keras.Model) -> None:
    inputs = {"source": SOURCE, "target": TARGET}

    def logits(seed: int) -> np.ndarray:
        with dropout_seed(tf.constant([seed, 0])):
            return model(inputs, training=True).numpy()

    np.testing.assert_array_equal(logits(1), logits(1))
    assert (logits(1) != logits(2)).any()


@pytest.mark.slow
def test_the_preset_is_as_large_as_tiny() -> None:
    counts = [
        transformer.build(
            dataclasses.replace(
                preset(name).model, source_vocabulary_size=10_000, target_vocabulary_size=10_000
            )
        ).count_params()
        for name in ("rnn", "tiny")
    ]
    assert 0.9 < counts[0] / counts[1] < 1.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 4}, "model.heads: expected 8, its default, for model.architecture recurrent"),
        ({"positions": "none"}, "model.positions: expected 'sinusoidal', its default"),
    ],
)
def test_options_of_the_transformer_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _config(**options)


def test_gradient_checkpointing_is_refused() -> None:
    with pytest.raises(ConfigError, match="gradient_checkpointing: expected false"):
        transformer.build(_config(), gradient_checkpointing=True)
