"""Comparison with the layers of KerasHub, which keras-nlp installs."""

from __future__ import annotations

import keras
import keras_nlp
import numpy as np
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model.encoder import EncoderLayer
from keras_transformer.model.kernels.normalization import EPSILON
from keras_transformer.model.masks import padding_mask
from keras_transformer.model.positions import sinusoidal_encoding


def test_sinusoids_equal_those_of_kerashub() -> None:
    theirs = keras_nlp.layers.SinePositionEncoding()(tf.zeros([1, 9, 6]))[0]
    np.testing.assert_allclose(sinusoidal_encoding(9, 6), theirs, atol=1e-6)


def test_an_encoder_layer_equals_that_of_kerashub() -> None:
    config = ModelConfig(d_model=8, heads=2, d_ff=12, dropout=0.0, attention_dropout=0.0)
    ids = tf.constant([[5, 6, 7, 3], [8, 3, 0, 0]])
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 4, 8)), tf.float32)
    ours, theirs = (
        EncoderLayer(config),
        keras_nlp.layers.TransformerEncoder(
            intermediate_dim=12, num_heads=2, layer_norm_epsilon=EPSILON
        ),
    )
    expected_before = theirs(x, padding_mask=ids != 0)
    assert expected_before.shape == (2, 4, 8)
    result = ours(x, padding_mask(ids))
    _give_weights(ours, theirs)
    # Their layer treats masked queries differently: compare real tokens only.
    real = (ids != 0).numpy()
    expected = theirs(x, padding_mask=ids != 0)
    assert np.abs(expected - expected_before)[real].max() > 1e-2
    np.testing.assert_allclose(result.numpy()[real], expected.numpy()[real], atol=1e-5)


def _give_weights(ours: EncoderLayer, theirs: keras.layers.Layer) -> None:
    """Copy our weights into their layer; the biases of its projections stay 0."""
    attention, feed_forward = ours.self_attention, ours.feed_forward
    for name in ("query", "key", "value", "output"):
        dense = getattr(theirs._self_attention_layer, f"_{name}_dense")
        kernel = getattr(attention, f"{name}_kernel")
        dense.kernel.assign(np.reshape(kernel, dense.kernel.shape))
    for dense, name in (
        (theirs._feedforward_intermediate_dense, "inner"),
        (theirs._feedforward_output_dense, "outer"),
    ):
        dense.kernel.assign(getattr(feed_forward, f"{name}_kernel"))
        dense.bias.assign(getattr(feed_forward, f"{name}_bias"))
