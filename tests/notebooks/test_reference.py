"""Layers, loss, schedule and search against the NumPy reference in notebooks 1 and 2."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.inference.search import strategies
from keras_transformer.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
)
from keras_transformer.model import transformer
from keras_transformer.model.attention import scaled_dot_product_attention
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from keras_transformer.model.kernels.normalization import LayerNormalization
from keras_transformer.model.masks import padding_mask
from keras_transformer.model.positions import sinusoidal_encoding
from keras_transformer.special_tokens import END
from keras_transformer.training.loss import token_losses
from keras_transformer.training.schedule import NoamSchedule
from tests.notebooks import reference

SCRATCH, MODEL = "1_attention_from_scratch", "2_the_whole_model"
IDS = np.array([[5, 6, 7, 8, 3], [8, 3, 0, 0, 0]])  # (B, S)


@pytest.fixture(scope="module")
def scratch() -> SimpleNamespace:
    return reference.load(SCRATCH)


@pytest.fixture(scope="module")
def whole() -> SimpleNamespace:
    return reference.load(MODEL)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def scatter(layer: keras.layers.Layer) -> None:
    """Give all weights random values: a gain of 1 or a bias of 0 could hide a fault."""
    for seed, weight in enumerate(layer.weights):
        weight.assign(weight + 0.3 * normal(*weight.shape, seed=seed))


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_both_notebooks_have_the_same_attention() -> None:
    first, second = reference.cells(SCRATCH), reference.cells(MODEL)
    shared = [cell for cell in first if "attention_loop" not in cell]
    assert len(shared) == 3
    assert set(shared) < set(second)


def test_attention(scratch: SimpleNamespace) -> None:
    queries, keys, values = normal(2, 4, 8), normal(2, 5, 8, seed=1), normal(2, 5, 3, seed=2)
    mask = np.random.default_rng(3).random((2, 4, 5)) < 0.5
    mask[0, 1] = False  # a query that may attend to nothing
    for allowed in (None, mask):
        expected = scratch.attention(queries, keys, values, allowed)
        tensors = (tf.constant(x) for x in (queries, keys, values))
        for one, other in zip(
            scaled_dot_product_attention(*tensors, allowed), expected, strict=True
        ):
            close(one, other)
    looped = scratch.attention_loop(queries[0], keys[0], values[0])
    close(looped, scratch.attention(queries, keys, values)[0][0])
    assert not scratch.attention(queries, keys, values, mask)[0][0, 1].any()


def test_multi_head_attention(scratch: SimpleNamespace) -> None:
    layer = MultiHeadAttention(d_model=6, heads=3, key_width=2, value_width=4)
    x, memory, mask = normal(2, 4, 6), normal(2, 5, 6, seed=1), padding_mask(tf.constant(IDS))
    output, weights = layer(x, memory, mask, return_weights=True)
    kernels = [weight.numpy() for weight in layer.weights]
    expected = scratch.multi_head(x, memory, kernels, 3, mask.numpy())
    close(output, expected[0])
    close(weights, expected[1])


def test_positions(scratch: SimpleNamespace) -> None:
    for width in (6, 7):
        close(sinusoidal_encoding(9, width), scratch.positions(9, width))


def test_layer_normalization_and_feed_forward(whole: SimpleNamespace) -> None:
    x = normal(2, 4, 6)
    norm, network = LayerNormalization(), FeedForward(d_model=6, d_ff=10)
    norm(x), network(x)
    scatter(norm), scatter(network)
    gamma, beta = norm.gamma.numpy(), norm.beta.numpy()
    for training in (False, True):
        close(norm(x, training=training), whole.layer_norm(x, gamma, beta))
    close(network(x), whole.feed_forward(x, *(weight.numpy() for weight in network.weights)))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_and_decoder_layer(whole: SimpleNamespace, norm: str) -> None:
    config = ModelConfig(d_model=8, heads=2, d_key=3, d_value=4, d_ff=12, norm=norm)
    memory, x, mask = normal(2, 5, 8), normal(2, 4, 8, seed=1), padding_mask(tf.constant(IDS))
    encoder, decoder = EncoderLayer(config), DecoderLayer(config)
    everything = tf.ones([1, 1, 1, 4], tf.bool)
    encoder(memory, mask), decoder(x, memory, everything, mask)
    scatter(encoder), scatter(decoder)
    options = {"heads": 2, "pre": norm == "pre"}
    expected = whole.encoder_layer(memory, whole.weights_of(encoder), mask=mask.numpy(), **options)
    close(encoder(memory, mask), expected)
    expected = whole.decoder_layer(
        x, memory, whole.weights_of(decoder), source_mask=mask.numpy(), **options
    )
    close(decoder(x, memory, everything, mask), expected)


def test_schedule(whole: SimpleNamespace) -> None:
    schedule = NoamSchedule(512, warmup_steps=40, factor=2.0)
    for step in (1, 39, 40, 41, 1000):
        expected = whole.learning_rate(step, 512, 40, 2.0)
        np.testing.assert_allclose(schedule(step - 1), expected, rtol=1e-5)


def test_label_smoothing(whole: SimpleNamespace) -> None:
    logits, labels = normal(2, 3, 7), np.array([[1, 2, 3], [4, 5, 6]])
    for smoothing in (0.0, 0.1):
        actual = token_losses(tf.constant(logits), tf.constant(labels), smoothing)
        close(actual, whole.smoothed_loss(logits, labels, smoothing))


# Search


def random_model(seed: int) -> keras.Model:
    """Return a model with so few target tokens that END often wins."""
    config = ModelConfig(
        source_vocabulary_size=20,
        target_vocabulary_size=9,
        encoder_layers=1,
        decoder_layers=2,
        d_model=16,
        heads=2,
        d_ff=32,
        embeddings="untied",
    )
    model = transformer.build(config)
    random = np.random.default_rng(seed)
    for weight in model.weights:
        offset = random.normal(0.0, 0.6, weight.shape)
        weight.assign(weight + offset if len(weight.shape) == 1 else offset)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.6), (2, 0.0), (4, 0.6), (5, 1.5)])
def test_beam_search(whole: SimpleNamespace, beam: int, alpha: float) -> None:
    """The same tokens for 30 sentences, some finished and some at the limit."""
    model, extra = random_model(seed=1), 5
    decoder = IncrementalDecoder(model)
    random = np.random.default_rng(beam)
    rows = [[*random.integers(4, 20, random.integers(1, 8)).tolist(), END] for _ in range(30)]
    source = np.array([row + [0] * (8 - len(row)) for row in rows], "int32")

    @tf.function(autograph=False)
    def search(source: tf.Tensor) -> Any:
        step, state = decoder.start(source, beam)
        limits = strategies.length_limits(source, extra)
        return strategies.beam_search(step, state, limits, beam=beam, alpha=alpha)

    ids = tf.TensorSpec([None, None], tf.int32)

    @tf.function(autograph=False, input_signature=[ids, ids])
    def next_log_p(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return tf.nn.log_softmax(model({"source": source, "target": target})[:, -1])

    hypotheses = search(tf.constant(source))
    finished = 0
    for sentence, row in enumerate(rows):

        def step(prefixes: np.ndarray, row: list[int] = row) -> np.ndarray:
            sources = np.tile([row], (len(prefixes), 1))
            return next_log_p(tf.constant(sources, tf.int32), tf.constant(prefixes, tf.int32))

        score, tokens = whole.beam_search(step, beam, len(row) - 1 + extra, alpha)
        length = hypotheses.lengths[sentence, 0].numpy()
        assert hypotheses.tokens[sentence, 0, :length].numpy().tolist() == tokens
        np.testing.assert_allclose(hypotheses.scores[sentence, 0], score, rtol=1e-4, atol=1e-5)
        finished += tokens[-1] == END
    # Greedy search does not always reach END; of 2 W extensions one nearly always has it.
    assert 0 < finished < (30 if beam == 1 else 31)
