"""The encoder and its layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.encoder import Encoder, EncoderLayer

# Two sentences of four positions, the second with one of padding.
MASK = tf.constant([[True, True, True, True], [True, True, True, False]])[:, None, None, :]

NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _encoder(config: Any, scatter: Callable[..., None] | None = None) -> Encoder:
    encoder = Encoder(config)
    encoder.build((None, None, config.d_model))
    if scatter is not None:
        scatter(encoder.weights)
    return encoder


@NORMS
def test_layer_by_its_definition(norm: str, tiny_config: Any, scatter: Any) -> None:
    layer = EncoderLayer(tiny_config(norm=norm))
    x = _normal(2, 4, 8)
    layer.build(x.shape)
    scatter(layer.weights)
    attention, feed_forward = layer.self_attention, layer.feed_forward
    norm_1, norm_2 = (
        part.normalization
        for part in (layer.self_attention_connection, layer.feed_forward_connection)
    )
    if norm == "post":
        middle = norm_1(x + attention(x, x, MASK))
        expected = norm_2(middle + feed_forward(middle))
    else:
        normed = norm_1(x)
        middle = x + attention(normed, normed, MASK)
        expected = middle + feed_forward(norm_2(middle))
    np.testing.assert_allclose(layer(x, MASK), expected, atol=1e-5)


@NORMS
def test_encoder_applies_its_layers_in_order(norm: str, tiny_config: Any, scatter: Any) -> None:
    encoder = _encoder(tiny_config(norm=norm, encoder_layers=2), scatter)
    x = _normal(2, 4, 8)
    first, second = encoder.layers
    expected = second(first(x, MASK), MASK)
    if norm == "pre":  # the sum of all sub-layers is not normalized
        assert encoder.final_norm is not None
        expected = encoder.final_norm(expected)
    np.testing.assert_allclose(encoder(x, MASK), expected, atol=1e-6)


@NORMS
def test_initial_output_is_normalized(norm: str, tiny_config: Any) -> None:
    encoder = _encoder(tiny_config(norm=norm, encoder_layers=2))
    output = encoder(10.0 * _normal(2, 4, 8) + 5.0, MASK).numpy()
    np.testing.assert_allclose(output.mean(axis=-1), np.zeros((2, 4)), atol=1e-4)
    np.testing.assert_allclose(output.std(axis=-1), np.ones((2, 4)), atol=1e-3)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_padding_changes_nothing(positions: str, tiny_config: Any, scatter: Any) -> None:
    encoder = _encoder(tiny_config(positions=positions, encoder_layers=2), scatter)
    x = _normal(2, 4, 8)
    output = encoder(x, MASK).numpy()
    other = x.copy()
    other[1, 3] = 100.0
    changed = encoder(other, MASK).numpy()
    np.testing.assert_array_equal(changed[0], output[0])
    np.testing.assert_array_equal(changed[1, :3], output[1, :3])
    # Each real token is seen by the tokens before and after it.
    other = x.copy()
    other[1, 1] += 1.0
    assert (encoder(other, MASK).numpy()[1, [0, 2]] != output[1, [0, 2]]).any(axis=-1).all()


@NORMS
def test_a_sentence_of_padding_is_finite_and_changes_no_other(
    norm: str, tiny_config: Any, scatter: Any
) -> None:
    encoder = _encoder(tiny_config(norm=norm, encoder_layers=2), scatter)
    x = _normal(2, 4, 8)
    empty = tf.constant([[True] * 4, [False] * 4])[:, None, None, :]
    with tf.GradientTape() as tape:
        output = encoder(x, empty)
        loss = tf.reduce_sum(output * _normal(2, 4, 8, seed=1))
    assert np.isfinite(output).all()
    for gradient in tape.gradient(loss, [weight.value for weight in encoder.weights]):
        assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(output[0], encoder(x, MASK)[0])


@NORMS
def test_harness(norm: str, tiny_config: Any, check_layer: Callable[..., None]) -> None:
    config = tiny_config(norm=norm, encoder_layers=2)
    kind = EncoderLayer if norm == "post" else Encoder
    check_layer(lambda **options: kind(config, **options), _normal(2, 4, 8), MASK)


@pytest.mark.slow
def test_harness_with_weights(tiny_config: Any, check_layer: Callable[..., None]) -> None:
    def call(layer: Any, *inputs: Any, **options: Any) -> Any:
        return layer(*inputs, return_weights=True, **options)

    config = tiny_config(encoder_layers=2)
    for kind in (EncoderLayer, Encoder):
        check_layer(lambda k=kind, **o: k(config, **o), _normal(2, 4, 8), MASK, call=call)
