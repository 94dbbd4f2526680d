"""The decoder and its layers, all positions at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.decoder import Decoder, DecoderLayer

# B = 2, T = 4, S = 3: all differ. The second source has one padding.
SOURCE_MASK = tf.constant([[True, True, True], [True, True, False]])[:, None, None, :]
TARGET_MASK = tf.ones([2, 1, 1, 4], tf.bool)

NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


X, MEMORY = _normal(2, 4, 8), _normal(2, 3, 8, seed=1)


def _decoder(config: Any, scatter: Callable[..., None]) -> Decoder:
    decoder = Decoder(config)
    decoder.build((None, None, config.d_model))
    scatter(decoder.weights)
    return decoder


@NORMS
def test_layer_by_its_definition(norm: str, tiny_config: Any, scatter: Any) -> None:
    layer = DecoderLayer(tiny_config(norm=norm))
    layer.build(X.shape)
    scatter(layer.weights)
    norms = [
        part.normalization
        for part in (
            layer.self_attention_connection,
            layer.cross_attention_connection,
            layer.feed_forward_connection,
        )
    ]
    sublayers: list[Callable[..., Any]] = [
        lambda y: layer.self_attention(y, y, TARGET_MASK, causal=True),
        lambda y: layer.cross_attention(y, MEMORY, SOURCE_MASK),
        layer.feed_forward,
    ]
    expected = tf.constant(X)
    for normalization, sublayer in zip(norms, sublayers, strict=True):
        if norm == "post":
            expected = normalization(expected + sublayer(expected))
        else:
            expected += sublayer(normalization(expected))
    output, own, weights = layer(X, MEMORY, TARGET_MASK, SOURCE_MASK, return_weights=True)
    np.testing.assert_allclose(output, expected, atol=1e-5)
    assert own.shape == (2, 2, 4, 4)
    assert weights.shape == (2, 2, 4, 3)
    assert not weights[1, :, :, 2].numpy().any()  # the padding of the second source


@NORMS
def test_decoder_applies_its_layers_in_order(norm: str, tiny_config: Any, scatter: Any) -> None:
    decoder = _decoder(tiny_config(norm=norm, decoder_layers=2), scatter)
    first, second = decoder.layers
    masks, options = (TARGET_MASK, SOURCE_MASK), {"return_weights": True}
    middle, _, first_weights = first(X, MEMORY, *masks, **options)
    expected, _, second_weights = second(middle, MEMORY, *masks, **options)
    np.testing.assert_array_equal(first(X, MEMORY, *masks), middle)
    if norm == "pre":
        assert decoder.final_norm is not None
        expected = decoder.final_norm(expected)
    output, weights = decoder(X, MEMORY, TARGET_MASK, SOURCE_MASK, return_weights=True)
    np.testing.assert_allclose(output, expected, atol=1e-6)
    np.testing.assert_allclose(weights[0], first_weights, atol=1e-6)
    np.testing.assert_allclose(weights[1], second_weights, atol=1e-6)
    np.testing.assert_array_equal(decoder(X, MEMORY, TARGET_MASK, SOURCE_MASK), output)


def _run(decoder: Decoder, x: np.ndarray, training: bool, return_weights: bool) -> Any:
    """Return the decoder's output, with the same dropout in each call."""
    tf.random.set_seed(1)
    weights = {id(weight) for weight in decoder.weights}
    for variable in decoder.variables:
        if id(variable) not in weights:  # the state of a seed generator
            variable.assign(tf.ones(variable.shape, variable.dtype))
    return decoder(
        x, MEMORY, TARGET_MASK, SOURCE_MASK, training=training, return_weights=return_weights
    )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("norm", "positions"), [("post", "none"), ("pre", "rotary"), ("post", "alibi")]
)
def test_later_tokens_change_no_earlier_output(
    norm: str, positions: str, training: bool, tiny_config: Any, scatter: Any
) -> None:
    decoder = _decoder(tiny_config(norm=norm, positions=positions, decoder_layers=2), scatter)
    future = X.copy()
    future[:, 2] += 5.0
    output, weights = _run(decoder, X, training, return_weights=True)
    other, other_weights = _run(decoder, future, training, return_weights=True)
    plain = _run(decoder, future, training, return_weights=False)
    np.testing.assert_array_equal(other[:, :2], output[:, :2])
    np.testing.assert_array_equal(plain, other)
    for one, two in zip(weights, other_weights, strict=True):
        np.testing.assert_array_equal(one[:, :, :2], two[:, :, :2])
    # Positions from the changed one on see the change.
    assert (other[:, 2:] != output[:, 2:]).numpy().any(axis=-1).all()


def test_encoder_output_matters_but_not_at_padding(tiny_config: Any, scatter: Any) -> None:
    decoder = _decoder(tiny_config(), scatter)
    output = decoder(X, MEMORY, TARGET_MASK, SOURCE_MASK).numpy()
    memory = MEMORY.copy()
    memory[:, 2] += 5.0  # real in the first sentence, padding in the second
    changed = decoder(X, memory, TARGET_MASK, SOURCE_MASK).numpy()
    assert (changed[0] != output[0]).any(axis=-1).all()
    np.testing.assert_array_equal(changed[1], output[1])


@NORMS
def test_source_of_padding_is_finite_and_changes_no_other(
    norm: str, tiny_config: Any, scatter: Any
) -> None:
    decoder = _decoder(tiny_config(norm=norm), scatter)
    empty = tf.constant([[True] * 3, [False] * 3])[:, None, None, :]
    with tf.GradientTape() as tape:
        output, weights = decoder(X, MEMORY, TARGET_MASK, empty, return_weights=True)
        loss = tf.reduce_sum(output * _normal(2, 4, 8, seed=2))
    assert np.isfinite(output).all()
    assert not weights[0][1].numpy().any()
    for gradient in tape.gradient(loss, [weight.value for weight in decoder.weights]):
        assert np.isfinite(gradient).all()
    full = decoder(X, MEMORY, TARGET_MASK, SOURCE_MASK)
    np.testing.assert_array_equal(output[0], full[0])


@NORMS
def test_harness(norm: str, tiny_config: Any, check_layer: Callable[..., None]) -> None:
    config = tiny_config(norm=norm)
    inputs = X, MEMORY, TARGET_MASK, SOURCE_MASK

    def call_with_weights(layer: Any, *inputs: Any, **options: Any) -> Any:
        return layer(*inputs, return_weights=True, **options)

    if norm == "post":
        check_layer(lambda **options: DecoderLayer(config, **options), *inputs)
        check_layer(lambda **options: Decoder(config, **options), *inputs, call=call_with_weights)
    else:
        check_layer(lambda **options: Decoder(config, **options), *inputs)
        check_layer(
            lambda **options: DecoderLayer(config, **options), *inputs, call=call_with_weights
        )
