"""The whole network: what it may see, what it shares, how large it is."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ConfigError, ModelConfig, preset
from keras_transformer.model import transformer
from keras_transformer.model.decoding import Decoding

NORM = ["post", "pre"]
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "none"]
EMBEDDINGS = ["tied", "decoder", "untied"]

ALL_OPTIONS = pytest.mark.parametrize(
    ("norm", "positions", "embeddings"), list(itertools.product(NORM, POSITIONS, EMBEDDINGS))
)

# B = 3, S = 5, T = 4: all differ, and so do the lengths of the sentences.
SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [6, 6, 10, 3, 0]], "int32")
TARGET = np.array([[2, 7, 5, 9], [2, 8, 0, 0], [2, 11, 4, 0]], "int32")


def _logits(model: keras.Model, source: Any, target: Any, training: bool = False) -> np.ndarray:
    inputs = {"source": tf.constant(source), "target": tf.constant(target)}
    return model(inputs, training=training).numpy()


# What may be seen


@ALL_OPTIONS
def test_the_future_is_not_seen(
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
    """Logits with the dropout of a seed."""
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
    np.testing.assert_array_equal(_trained(model, TARGET), plain)
    dropping = transformer.build(tiny_config(**none | {name: 0.5}))
    dropping.set_weights(model.get_weights())
    np.testing.assert_array_equal(_logits(dropping, SOURCE, TARGET), plain)
    assert np.abs(_trained(dropping, TARGET) - plain).max() > 1e-3


@ALL_OPTIONS
def test_the_future_is_not_seen_in_training(
    norm: str, positions: str, embeddings: str, tiny_model: Any
) -> None:
    model = tiny_model(norm=norm, positions=positions, embeddings=embeddings)
    target = TARGET.copy()
    target[:, 2] = 12
    logits, changed = _trained(model, TARGET), _trained(model, target)
    np.testing.assert_array_equal(changed[:, :2], logits[:, :2])
    assert (changed[:, 2] != logits[:, 2]).any(axis=-1).all()


@ALL_OPTIONS
def test_padding_and_batch_mates_change_nothing(
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
def test_a_sentence_of_padding_is_finite_and_alone(
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
def test_order_is_known_unless_positions_are_none(positions: str, tiny_model: Any) -> None:
    model = tiny_model(positions=positions)
    reordered = np.array([[7, 8, 5, 6, 3]], "int32")
    difference = np.abs(
        _logits(model, SOURCE[:1], TARGET[:1]) - _logits(model, reordered, TARGET[:1])
    ).max()
    assert difference < 1e-5 if positions == "none" else difference > 1e-4


def test_each_source_token_reaches_every_target_position(tiny_model: Any) -> None:
    model = tiny_model()
    # Row s has source token s changed; the last row is the sentence itself.
    source = np.tile(SOURCE[:1], (6, 1))
    source[range(5), range(5)] = 12
    logits = _logits(model, source, np.tile(TARGET[:1], (6, 1)))
    assert (logits[:5] != logits[5]).any(axis=-1).all()


# Shape, types, execution


def test_logits_are_float32_of_any_length(tiny_model: Any) -> None:
    model = tiny_model(source_vocabulary=9, target_vocabulary=13, embeddings="decoder")
    assert model.output.dtype == "float32"
    assert model.output.shape == (None, None, 13)
    for batch, source, target in ((2, 3, 5), (1, 1, 1), (4, 7, 2), (0, 3, 2)):
        logits = _logits(model, np.ones((batch, source)), np.ones((batch, target)))
        assert logits.shape == (batch, target, 13)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi"])
def test_graph_of_open_sizes_equals_eager(positions: str, tiny_model: Any) -> None:
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


def test_fit_reaches_every_weight(tiny_config: Any) -> None:
    class Own(keras.Model):
        """A model class with a training step of its own would be given like this."""

    config = tiny_config(norm="pre", positions="learned", embeddings="untied", max_positions=5)
    model = transformer.build(config, model_class=Own)
    assert isinstance(model, Own)
    before = model.get_weights()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss, jit_compile=False)
    # Every place is real, so that every learned position is used.
    source, target = np.tile(SOURCE[:1], (2, 1)), np.tile(SOURCE[:1], (2, 1))
    history = model.fit({"source": source, "target": target}, target, epochs=2, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < losses[0]
    for weight, old in zip(model.weights, before, strict=True):
        assert np.isfinite(weight.numpy()).all(), weight.path
        assert (weight.numpy() != old).any(), weight.path


def test_features_are_the_network_before_its_projection(tiny_model: Any) -> None:
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


@pytest.mark.parametrize("name", ["source_vocabulary", "target_vocabulary"])
def test_no_vocabulary_no_model(name: str, tiny_config: Any) -> None:
    config = tiny_config(embeddings="untied", **{name: 0})
    with pytest.raises(ConfigError, match=f"model.{name}: expected 1 or more .* got 0"):
        transformer.build(config)


# What is shared, and how much there is


@pytest.mark.parametrize(("embeddings", "matrices"), [("tied", 1), ("decoder", 2), ("untied", 3)])
def test_matrices_are_shared_as_the_option_says(
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


def _parameters(config: ModelConfig) -> int:
    """The number of weights by formula."""
    width = config.d_model
    keys, values = config.heads * config.key_width, config.heads * config.value_width
    attention = 2 * width * keys + 2 * width * values  # W^Q, W^K, W^V, W^O
    feed_forward = 2 * width * config.d_ff + config.d_ff + width
    norm = 2 * width
    encoder = config.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = config.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    embeddings = {
        "tied": config.target_vocabulary,
        "decoder": config.source_vocabulary + config.target_vocabulary,
        "untied": config.source_vocabulary + 2 * config.target_vocabulary,
    }[config.embeddings]
    last = 2 * norm if config.norm == "pre" else 0
    learned = 2 * config.max_positions if config.positions == "learned" else 0
    return encoder + decoder + (embeddings + learned) * width + last


@ALL_OPTIONS
def test_parameters_by_formula(
    norm: str, positions: str, embeddings: str, tiny_model: Any, tiny_config: Any
) -> None:
    options = {"norm": norm, "positions": positions, "embeddings": embeddings}
    assert tiny_model(**options).count_params() == _parameters(tiny_config(**options))


def _with_vocabulary(config: ModelConfig, size: int) -> ModelConfig:
    return dataclasses.replace(config, source_vocabulary=size, target_vocabulary=size)


@pytest.mark.parametrize(
    ("name", "vocabulary", "parameters"),
    [
        # 10,000 * 128 = 1,280,000 for the vocabulary; attention 4 * 128^2 = 65,536; feed-forward
        # 2 * 128 * 256 + 256 + 128 = 65,920; normalisation 256.
        # 4 * (65,536 + 65,920 + 512) + 4 * (131,072 + 65,920 + 768) = 1,318,912.
        ("tiny", 10_000, 2_598_912),
        # 2,560,000; 262,144; 525,568; 512: 3 * 788,736 + 3 * 1,051,392 = 5,520,384.
        ("small", 10_000, 8_080_384),
        # 18,944,000; 1,048,576; 2,099,712; 1,024:
        # 6 * 3,150,336 + 6 * 4,199,936 = 44,101,632.
        ("base", 37_000, 63_045_632),
        # 37,888,000; 4,194,304; 8,393,728; 2,048:
        # 6 * 12,592,128 + 6 * 16,788,480 = 176,283,648.
        ("big", 37_000, 214_171_648),
    ],
)
def test_presets_have_the_paper_s_size(
    name: str, vocabulary: int, parameters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the size counts here, and zeros are made faster than 214 million random numbers.
    for initializer in (keras.initializers.RandomNormal, keras.initializers.GlorotUniform):
        monkeypatch.setattr(
            initializer, "__call__", lambda self, shape, dtype=None, **_: tf.zeros(shape, dtype)
        )
    config = _with_vocabulary(preset(name).model, vocabulary)
    assert _parameters(config) == parameters
    assert transformer.build(config).count_params() == parameters
    if name == "base":
        assert abs(parameters / 65e6 - 1) < 0.04
    if name == "big":
        assert abs(parameters / 213e6 - 1) < 0.02


# Table 3: what each row changes from the base model, and its parameters in millions where
# they are given.
TABLE_3: list[tuple[str, dict[str, Any], int | None]] = [
    ("base", {}, 65),
    ("A 1", {"heads": 1, "d_key": 512, "d_value": 512}, None),
    ("A 4", {"heads": 4, "d_key": 128, "d_value": 128}, None),
    ("A 16", {"heads": 16, "d_key": 32, "d_value": 32}, None),
    ("A 32", {"heads": 32, "d_key": 16, "d_value": 16}, None),
    ("B 16", {"d_key": 16}, 58),
    ("B 32", {"d_key": 32}, 60),
    ("C N 2", {"encoder_layers": 2, "decoder_layers": 2}, 36),
    ("C N 4", {"encoder_layers": 4, "decoder_layers": 4}, 50),
    ("C N 8", {"encoder_layers": 8, "decoder_layers": 8}, 80),
    ("C 256", {"d_model": 256, "d_key": 32, "d_value": 32}, 28),
    ("C 1024", {"d_model": 1024, "d_key": 128, "d_value": 128}, 168),
    ("C ff 1024", {"d_ff": 1024}, 53),
    ("C ff 4096", {"d_ff": 4096}, 90),
    ("D 0.0", {"dropout": 0.0}, None),
    ("D 0.2", {"dropout": 0.2}, None),
    ("E", {"positions": "learned"}, None),
    ("big", {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3}, 213),
]


@pytest.mark.parametrize(("changes", "millions"), [row[1:] for row in TABLE_3])
def test_rows_of_table_3_have_the_paper_s_size(
    changes: dict[str, Any], millions: int | None
) -> None:
    base = _with_vocabulary(preset("base").model, 37_000)
    parameters = _parameters(dataclasses.replace(base, **changes))
    if millions is None:
        # The paper leaves the field empty where it does not change (learned positions aside).
        assert 0 <= parameters - _parameters(base) <= 2 * 1024 * 512
        return
    # "About 37,000" tokens: with 41,000 all rows but big would agree within 2 %, so the whole
    # is compared loosely ...
    assert abs(parameters / (1e6 * millions) - 1) < 0.07
    if "d_model" not in changes:
        # ... and the difference from base, in which the vocabulary cancels, to the paper's
        # rounding of both numbers.
        difference = (parameters - _parameters(base)) / 1e6
        assert abs(difference - (millions - 65)) < 1.0


@pytest.mark.parametrize("changes", [row[1] for row in TABLE_3], ids=[row[0] for row in TABLE_3])
def test_rows_of_table_3_build(changes: dict[str, Any]) -> None:
    # An eighth of every width and fewer layers: the same structure, built in no time.
    small = {"d_model": 64, "d_ff": 256, "encoder_layers": 1, "decoder_layers": 1}
    widths = {"d_model": 8, "d_ff": 8, "d_key": 8, "d_value": 8}
    scaled = {
        name: value // widths.get(name, 1) for name, value in changes.items() if name in widths
    }
    config = dataclasses.replace(_with_vocabulary(preset("base").model, 13), **small)
    config = dataclasses.replace(config, **(changes | scaled))
    model = transformer.build(config)
    assert model.count_params() == _parameters(config)
    if "heads" in changes or "d_key" in changes:
        assert np.isfinite(_logits(model, SOURCE, TARGET, training=True)).all()


# Saving

SAVED: dict[str, dict[str, Any]] = {
    "paper": {},
    "learned": {"norm": "pre", "positions": "learned", "embeddings": "decoder"},
    "rotary": {"norm": "pre", "positions": "rotary", "embeddings": "untied", "d_value": 6},
    "alibi": {"positions": "alibi", "embeddings": "untied", "heads": 4},
    "bfloat16": {"positions": "none", "dropout": 0.0, "dtype": "mixed_bfloat16"},
}

RELOAD = """
import sys
from pathlib import Path
import keras
import numpy as np
import keras_transformer.model.transformer

folder = Path(sys.argv[1])
inputs = dict(np.load(folder / "inputs.npz"))
results = {}
for file in sorted(folder.glob("*.keras")):
    model = keras.models.load_model(file)
    results[file.stem] = model(inputs, training=False).numpy()
    results[file.stem + " variables"] = len(model.weights)
np.savez(folder / "results.npz", **results)
"""


def test_reload_in_a_fresh_process(tiny_model: Any, tmp_path: Path) -> None:
    models = {name: tiny_model(**options) for name, options in SAVED.items()}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    np.savez(tmp_path / "inputs.npz", source=SOURCE, target=TARGET)
    subprocess.run(
        [sys.executable, "-c", RELOAD, str(tmp_path)],
        check=True,
        cwd=Path(transformer.__file__).parents[2],
    )
    results = np.load(tmp_path / "results.npz")
    for name, model in models.items():
        np.testing.assert_array_equal(results[name], _logits(model, SOURCE, TARGET))
        assert results[name + " variables"] == len(model.weights)


def test_every_registered_layer_is_in_a_model(tiny_model: Any) -> None:
    # Otherwise the reload above would have left one out.
    registered = {
        cls
        for name, cls in keras.saving.get_custom_objects().items()
        if cls.__module__.startswith("keras_transformer.model.")
    }
    used = {type(layer) for layer in tiny_model()._flatten_layers()}
    assert len(registered) >= 11
    assert registered <= used


def test_a_reloaded_model_decodes_and_stays_tied(tiny_model: Any, tmp_path: Path) -> None:
    model = tiny_model()
    model.save(tmp_path / "model.keras")
    twin = keras.models.load_model(tmp_path / "model.keras")
    token, position = tf.constant([2, 2, 2]), tf.constant(0)
    step, state = Decoding(twin).start(tf.constant(SOURCE))
    logits, _ = step(token, position, state)
    np.testing.assert_allclose(logits, _logits(model, SOURCE, TARGET)[:, 0], atol=1e-5)
    transformer.source_embedding(twin).matrix.assign(tf.zeros([13, 8]))
    assert not _logits(twin, SOURCE, TARGET).any()
