"""The whole network: masking, execution, shared weights."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ConfigError
from keras_transformer.model import transformer

NORM = ["post", "pre"]
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "none"]
EMBEDDINGS = ["tied", "decoder", "untied"]

# All pairs of norm and positions; the kinds of embeddings take turns, as they act outside.
OPTIONS = [
    (norm, positions, embeddings)
    for (norm, positions), embeddings in zip(
        itertools.product(NORM, POSITIONS), itertools.cycle(EMBEDDINGS)
    )
]
ALL_OPTIONS = pytest.mark.parametrize(("norm", "positions", "embeddings"), OPTIONS)

# B = 3, S = 5, T = 4: all differ, and so do the lengths of the sentences.
SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [6, 6, 10, 3, 0]], "int32")
TARGET = np.array([[2, 7, 5, 9], [2, 8, 0, 0], [2, 11, 4, 0]], "int32")


def _logits(model: keras.Model, source: Any, target: Any, training: bool = False) -> np.ndarray:
    inputs = {"source": tf.constant(source), "target": tf.constant(target)}
    return model(inputs, training=training).numpy()


# Masking


@ALL_OPTIONS
def test_later_target_tokens_change_no_earlier_logits(
    norm: str, positions: str, embeddings: str, tiny_model: Any
) -> None:
    model = tiny_model(norm=norm, positions=positions, embeddings=embeddings)
    # The same sentence three times; then row t has its token t + 1 changed.
    source, target = np.tile(SOURCE[:1], (3, 1)), np.tile(TARGET[:1], (3, 1))
    logits = _logits(model, source, target)
    target[[0, 1, 2], [1, 2, 3]] = 12
    changed = _logits(model, source, target)
    for t in range(3):
        np.testing.assert_array_equal(changed[t, : t + 1], logits[t, : t + 1])
        assert (changed[t, t + 1 :] != logits[t, t + 1 :]).any(axis=-1).all()


def _trained(model: keras.Model, target: Any, seed: int = 1) -> np.ndarray:
    """Return logits with the dropout of a seed."""
    tf.random.set_seed(seed)
    weights = {id(weight) for weight in model.weights}
    for variable in model.variables:
        if id(variable) not in weights:  # the state of a seed generator
            variable.assign(tf.cast(tf.fill(variable.shape, seed), variable.dtype))
    return _logits(model, SOURCE, target, training=True)


def test_dropout_is_drawn_from_the_seed_in_training_only(tiny_model: Any) -> None:
    model = tiny_model()
    logits = _trained(model, TARGET)
    np.testing.assert_array_equal(_trained(model, TARGET), logits)
    assert np.abs(_trained(model, TARGET, seed=2) - logits).max() > 1e-3
    plain = _logits(model, SOURCE, TARGET)
    assert np.abs(plain - logits).max() > 1e-3
    np.testing.assert_array_equal(_logits(model, SOURCE, TARGET), plain)


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "feed_forward_dropout"])
def test_each_dropout_acts_in_training_only(name: str, tiny_model: Any, tiny_config: Any) -> None:
    none = {"dropout": 0.0, "attention_dropout": 0.0, "feed_forward_dropout": 0.0}
    model = tiny_model(**none)
    plain = _logits(model, SOURCE, TARGET)
    np.testing.assert_allclose(_trained(model, TARGET), plain, atol=1e-5)
    dropping = transformer.build(tiny_config(**none | {name: 0.5}))
    dropping.set_weights(model.get_weights())
    np.testing.assert_array_equal(_logits(dropping, SOURCE, TARGET), plain)
    assert np.abs(_trained(dropping, TARGET) - plain).max() > 1e-3


@ALL_OPTIONS
def test_later_target_tokens_change_no_earlier_logits_in_training(
    norm: str, positions: str, embeddings: str, tiny_model: Any
) -> None:
    model = tiny_model(norm=norm, positions=positions, embeddings=embeddings)
    target = TARGET.copy()
    target[:, 2] = 12
    logits, changed = _trained(model, TARGET), _trained(model, target)
    np.testing.assert_array_equal(changed[:, :2], logits[:, :2])
    assert (changed[:, 2] != logits[:, 2]).any(axis=-1).all()


@ALL_OPTIONS
def test_padding_and_other_sentences_of_the_batch_change_nothing(
    norm: str, positions: str, embeddings: str, tiny_model: Any
) -> None:
    model = tiny_model(norm=norm, positions=positions, embeddings=embeddings)
    together = _logits(model, np.pad(SOURCE, [(0, 0), (0, 2)]), np.pad(TARGET, [(0, 0), (0, 3)]))
    assert together.shape == (3, 7, 13)
    for row in range(3):
        source = SOURCE[row : row + 1, : np.count_nonzero(SOURCE[row])]
        target = TARGET[row : row + 1, : np.count_nonzero(TARGET[row])]
        alone = _logits(model, source, target)
        np.testing.assert_allclose(together[row, : target.size], alone[0], atol=1e-5)


@pytest.mark.parametrize("norm", NORM)
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_sentence_of_padding_is_finite_and_changes_no_other(
    norm: str, positions: str, tiny_model: Any
) -> None:
    model = tiny_model(norm=norm, positions=positions)
    source, target = SOURCE.copy(), TARGET.copy()
    source[1] = 0
    target[1] = 0
    inputs = {"source": tf.constant(source), "target": tf.constant(target)}
    with tf.GradientTape() as tape:
        logits = model(inputs, training=False)
        loss = tf.reduce_sum(tf.math.sin(logits))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    assert np.isfinite(logits).all()
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all(), weight.path
    others = _logits(model, SOURCE, TARGET)
    np.testing.assert_array_equal(logits[::2], others[::2])


@pytest.mark.parametrize("positions", POSITIONS)
def test_order_matters_unless_positions_are_none(positions: str, tiny_model: Any) -> None:
    model = tiny_model(positions=positions)
    reordered = np.array([[7, 8, 5, 6, 3]], "int32")
    difference = np.abs(
        _logits(model, SOURCE[:1], TARGET[:1]) - _logits(model, reordered, TARGET[:1])
    ).max()
    assert difference < 1e-5 if positions == "none" else difference > 1e-4


def test_every_source_token_affects_every_target_position(tiny_model: Any) -> None:
    model = tiny_model()
    # Row s has source token s changed; the last row is the sentence itself.
    source = np.tile(SOURCE[:1], (6, 1))
    source[range(5), range(5)] = 12
    logits = _logits(model, source, np.tile(TARGET[:1], (6, 1)))
    assert (logits[:5] != logits[5]).any(axis=-1).all()


# Shape, types, execution


def test_logits_are_float32_for_any_length(tiny_model: Any) -> None:
    model = tiny_model(source_vocabulary_size=9, target_vocabulary_size=13, embeddings="decoder")
    assert model.output.dtype == "float32"
    assert model.output.shape == (None, None, 13)
    for batch, source, target in ((2, 3, 5), (1, 1, 1), (4, 7, 2), (0, 3, 2)):
        logits = _logits(model, np.ones((batch, source)), np.ones((batch, target)))
        assert logits.shape == (batch, target, 13)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi"])
def test_graph_with_unknown_sizes_equals_eager(positions: str, tiny_model: Any) -> None:
    model = tiny_model(positions=positions)
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in ("source", "target")}
    graph = tf.function(lambda inputs: model(inputs, training=False), input_signature=[spec])
    for source, target in ((SOURCE, TARGET), (TARGET[:2], SOURCE[:2])):
        logits = graph({"source": tf.constant(source), "target": tf.constant(target)})
        np.testing.assert_allclose(logits, _logits(model, source, target), atol=1e-5)


@pytest.mark.parametrize("norm", NORM)
def test_bfloat16_is_close_to_float32(norm: str, tiny_model: Any, tiny_config: Any) -> None:
    model = tiny_model(norm=norm, positions="rotary")
    half = transformer.build(tiny_config(norm=norm, positions="rotary"), "mixed_bfloat16")
    half.set_weights(model.get_weights())
    assert {weight.dtype for weight in half.weights} == {"float32"}
    exact, logits = _logits(model, SOURCE, TARGET), _logits(half, SOURCE, TARGET)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, exact, atol=0.05 * np.abs(exact).max())
    assert (logits != exact).any()


def test_fit_changes_every_weight(tiny_config: Any) -> None:
    class Own(keras.Model):
        """A class for `model_class`, here without a training step of its own."""

    config = tiny_config(norm="pre", positions="learned", embeddings="untied", max_positions=5)
    keras.utils.set_random_seed(1)
    model = transformer.build(config, model_class=Own)
    assert isinstance(model, Own)
    before = model.get_weights()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=False)
    # No padding, so that every learned position is used.
    source, target = np.tile(SOURCE[:1], (2, 1)), np.tile(SOURCE[:1], (2, 1))
    history = model.fit({"source": source, "target": target}, target, epochs=10, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < losses[0]
    for weight, old in zip(model.weights, before, strict=True):
        assert np.isfinite(weight.numpy()).all(), weight.path
        assert (weight.numpy() != old).any(), weight.path


def test_features_are_the_output_before_the_projection(tiny_model: Any) -> None:
    model = tiny_model()
    features = transformer.features(model)
    inputs = {"source": tf.constant(SOURCE), "target": tf.constant(TARGET)}
    decoded = features(inputs, training=False)
    assert decoded.shape == (3, 4, 8)
    np.testing.assert_allclose(
        transformer.projection(model)(decoded, reverse=True),
        _logits(model, SOURCE, TARGET),
        atol=1e-6,
    )
    assert {id(weight) for weight in features.weights} <= {id(weight) for weight in model.weights}


@pytest.mark.parametrize("name", ["source_vocabulary_size", "target_vocabulary_size"])
def test_a_vocabulary_size_of_zero_is_refused(name: str, tiny_config: Any) -> None:
    config = tiny_config(embeddings="untied", **{name: 0})
    with pytest.raises(ConfigError, match=f"model.{name}: expected 1 or more .* got 0"):
        transformer.build(config)


# Shared weights


@pytest.mark.parametrize(("embeddings", "matrices"), [("tied", 1), ("decoder", 2), ("untied", 3)])
def test_embeddings_option_selects_the_shared_matrices(
    embeddings: str, matrices: int, tiny_model: Any
) -> None:
    model = tiny_model(embeddings=embeddings)
    found = [weight for weight in model.weights if tuple(weight.shape) == (13, 8)]
    assert len(found) == matrices
    source, target, projection = (
        get(model).matrix
        for get in (
            transformer.source_embedding,
            transformer.target_embedding,
            transformer.projection,
        )
    )
    assert (source is target) == (embeddings == "tied")
    assert (target is projection) == (embeddings != "untied")


def test_summary_lists_the_layers_by_the_names_of_the_paper(tiny_model: Any) -> None:
    lines: list[str] = []
    tiny_model().summary(line_length=250, expand_nested=True, print_fn=lines.append)
    text = "\n".join(lines)
    for part in (
        "embedding (TokenEmbedding)",
        "source_positions (PositionalEncoding)",
        "encoder (Encoder)",
        "layer_0 (EncoderLayer)",
        "decoder (Decoder)",
        "layer_0 (DecoderLayer)",
    ):
        assert part in text
