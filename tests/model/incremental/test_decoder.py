"""Incremental decoding, compared with the full pass."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config.model import Ablation
from keras_transformer.inference.search.step_function import state_shape_invariants
from keras_transformer.model import transformer
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from tests.support.model_options import ALL, cases

NORM = ["post", "pre"]
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "none"]
EMBEDDINGS = ["tied", "decoder", "untied"]
QUICK_ABLATIONS = ["unscaled_attention", "batch_normalization"]

# All pairs of norm and positions; the kinds of embeddings take turns, as they act outside.
OPTIONS = [
    (norm, positions, embeddings)
    for (norm, positions), embeddings in zip(
        itertools.product(NORM, POSITIONS), itertools.cycle(EMBEDDINGS)
    )
]

# B = 2, S = 4, the second sentence padded; W = 3 hypotheses of T = 4 tokens for each.
SOURCE = tf.constant([[5, 6, 7, 3], [9, 3, 0, 0]])
TARGET = np.array(
    [
        [2, 7, 5, 9],
        [2, 8, 8, 11],
        [2, 11, 4, 3],
        [2, 5, 12, 12],
        [2, 1, 9, 10],
        [2, 7, 5, 9],
    ],
    "int32",
)


def _full(model: keras.Model, source: tf.Tensor, target: np.ndarray) -> np.ndarray:
    """Return the logits (R, T, V) of the full pass."""
    source = tf.repeat(source, len(target) // source.shape[0], axis=0)
    return model({"source": source, "target": tf.constant(target)}, training=False).numpy()


def _with_room(step: Any, state: Any, more: int) -> Any:
    """Return the state of all sentences with room for ``more`` steps."""
    return step.select_and_reserve(state, tf.range(tf.shape(state.visible)[0]), more)


def _stepped(model: keras.Model, source: tf.Tensor, target: np.ndarray) -> np.ndarray:
    """Return the logits (R, T, V) of single steps."""
    step, state = IncrementalDecoder(model).start(source, beam=len(target) // source.shape[0])
    state = _with_room(step, state, target.shape[1])
    logits = []
    for position in range(target.shape[1]):
        row, state = step(tf.constant(target[:, position]), tf.constant(position), state)
        logits.append(row)
    return np.stack(logits, axis=1)


@pytest.mark.parametrize(("norm", "positions", "embeddings"), OPTIONS)
def test_steps_equal_the_full_pass(
    norm: str, positions: str, embeddings: str, tiny_model: Any
) -> None:
    model = tiny_model(norm=norm, positions=positions, embeddings=embeddings)
    np.testing.assert_allclose(
        _stepped(model, SOURCE, TARGET), _full(model, SOURCE, TARGET), atol=2e-5
    )


@pytest.mark.parametrize(
    "ablation",
    [
        # The others differ in no code that a step does not share with the full pass.
        name if name in QUICK_ABLATIONS else pytest.param(name, marks=pytest.mark.slow)
        for name in get_args(Ablation)
        if name != "none"
    ],
)
def test_steps_equal_the_full_pass_of_each_ablation(ablation: str, tiny_model: Any) -> None:
    model, paper = tiny_model(ablation=ablation), tiny_model()
    full = _full(model, SOURCE, TARGET)
    np.testing.assert_allclose(
        _stepped(model, SOURCE, TARGET), full, atol=2e-5 * np.abs(full).max()
    )
    assert np.abs(full - _full(paper, SOURCE, TARGET)).max() > 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"positions": "learned", "max_positions": 3},  # shorter than source and target
        {"positions": "rotary", "d_key": 2, "d_value": 7, "decoder_layers": 2},
        {"positions": "alibi", "heads": 1},
        {"embeddings": "decoder", "source_vocabulary_size": 10},
    ],
)
def test_steps_equal_the_full_pass_in_odd_shapes(options: dict[str, Any], tiny_model: Any) -> None:
    model = tiny_model(**options)
    np.testing.assert_allclose(
        _stepped(model, SOURCE, TARGET), _full(model, SOURCE, TARGET), atol=2e-5
    )


@pytest.mark.parametrize("fields", cases())
def test_steps_equal_the_full_pass_with_each_option(
    fields: dict[str, Any], tiny_model: Any
) -> None:
    model = tiny_model(**fields)
    full = _full(model, SOURCE, TARGET)
    np.testing.assert_allclose(
        _stepped(model, SOURCE, TARGET), full, atol=2e-5 * np.abs(full).max()
    )


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_steps_equal_the_full_pass_with_biases_and_relative_positions(
    positions: str, tiny_model: Any
) -> None:
    model = tiny_model(positions=positions, attention_bias=True, decoder_heads=4)
    np.testing.assert_allclose(
        _stepped(model, SOURCE, TARGET), _full(model, SOURCE, TARGET), atol=2e-5
    )


@pytest.mark.parametrize(
    "fields", [*({"norm": norm} for norm in NORM), pytest.param(ALL, marks=pytest.mark.slow)]
)
def test_steps_in_bfloat16(fields: dict[str, Any], tiny_model: Any, tiny_config: Any) -> None:
    model = tiny_model(**fields)
    half = transformer.build(tiny_config(**fields), "mixed_bfloat16")
    half.set_weights(model.get_weights())
    stepped, exact = _stepped(half, SOURCE, TARGET), _full(model, SOURCE, TARGET)
    assert stepped.dtype == np.float32
    np.testing.assert_allclose(stepped, exact, atol=0.05 * np.abs(exact).max())


def test_more_padding_changes_no_step(tiny_model: Any) -> None:
    model = tiny_model()
    padded = tf.pad(SOURCE, [[0, 0], [0, 3]])
    np.testing.assert_allclose(
        _stepped(model, padded, TARGET), _stepped(model, SOURCE, TARGET), atol=2e-5
    )


def test_a_source_of_padding_is_finite_and_changes_no_other(tiny_model: Any) -> None:
    model = tiny_model()
    source = tf.constant([[5, 6, 7, 3], [0, 0, 0, 0]])
    stepped = _stepped(model, source, TARGET)
    assert np.isfinite(stepped).all()
    np.testing.assert_array_equal(stepped[:3], _stepped(model, SOURCE, TARGET)[:3])


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_rows_may_be_reordered_within_a_sentence(positions: str, tiny_model: Any) -> None:
    model = tiny_model(positions=positions)
    # After two steps each sentence continues with other prefixes, one of them twice.
    parents = tf.constant([[2, 0, 0], [0, 2, 1]])
    order = [2, 0, 0, 3, 5, 4]
    target = np.concatenate([TARGET[order, :2], TARGET[:, 2:]], axis=1)
    step, state = IncrementalDecoder(model).start(SOURCE, beam=3)
    state = _with_room(step, state, 3)
    for position in range(4):
        if position == 2:
            state = step.reorder(state, parents)
        if position == 3:
            state = _with_room(step, state, 2)  # more than needed
        tokens = TARGET[:, position]
        logits, state = step(tf.constant(tokens), tf.constant(position), state)
    np.testing.assert_allclose(logits, _full(model, SOURCE, target)[:, -1], atol=2e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_slots_of_no_row_are_dropped(positions: str, tiny_model: Any) -> None:
    model = tiny_model(positions=positions, decoder_layers=2)
    step, state = IncrementalDecoder(model).start(SOURCE, beam=3)
    state = _with_room(step, state, 5)
    for position in range(3):
        _, state = step(tf.constant(TARGET[:, position]), tf.constant(position), state)
    # In the first sentence all rows continue one row; in the second, two rows are continued.
    state = step.reorder(state, tf.constant([[1, 1, 1], [2, 0, 0]]))
    order = [1, 1, 1, 5, 3, 3]
    target = np.concatenate([TARGET[order, :3], TARGET[:, 3:]], axis=1)
    expected = _full(model, SOURCE, target)[:, -1]
    # In each of the 3 positions, one slot is seen in the first sentence, 2 in the second.
    for sentences, filled in (([0, 1], 2), ([0], 1), ([1], 2), ([1, 0], 2), ([], 0)):
        kept = step.select_and_reserve(state, sentences, 2)
        assert int(kept.filled) == filled
        assert kept.visible.shape == (len(sentences), 3, 3 * (filled + 2))
        rows = np.array([3 * sentence + row for sentence in sentences for row in range(3)], int)
        logits, _ = step(tf.constant(target[rows, 3]), tf.constant(3), kept)
        np.testing.assert_allclose(logits, expected[rows], atol=2e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_sentences_may_be_dropped_and_reordered(positions: str, tiny_model: Any) -> None:
    model = tiny_model(positions=positions, decoder_layers=2)
    step, state = IncrementalDecoder(model).start(SOURCE, beam=3)
    state = _with_room(step, state, 6)
    for position in range(2):
        _, state = step(tf.constant(TARGET[:, position]), tf.constant(position), state)
    for sentences in ([1, 0], [1], []):
        rows = np.array([3 * sentence + row for sentence in sentences for row in range(3)], int)
        kept = step.select_and_reserve(state, tf.constant(sentences, tf.int32), 1)
        logits, _ = step(tf.constant(TARGET[rows, 2]), tf.constant(2), kept)
        full = _full(model, SOURCE, TARGET[:, :3])[rows, -1]
        np.testing.assert_allclose(logits, full, atol=2e-5)


def test_the_decoder_keeps_no_state(tiny_model: Any) -> None:
    step, state = IncrementalDecoder(tiny_model()).start(SOURCE)
    state = _with_room(step, state, 4)
    first = tf.constant([2, 2])
    once, after = step(first, tf.constant(0), state)
    step(tf.constant([7, 8]), tf.constant(1), after)
    again, _ = step(first, tf.constant(0), state)
    np.testing.assert_array_equal(once, again)
    assert (state.visible.numpy() == 0.0).tolist() == [[[False] * 4]] * 2
    assert (after.visible.numpy() == 0.0).tolist() == [[[True, False, False, False]]] * 2


@pytest.mark.slow
def test_runs_of_one_graph_share_no_cache(tiny_model: Any) -> None:
    # With a fixed batch, the first caches are constants that a graph could share between runs.
    model = tiny_model()

    @tf.function
    def caches() -> Any:
        step, state = IncrementalDecoder(model).start(SOURCE)
        _, state = step(tf.constant([2, 2]), 0, _with_room(step, state, 2))
        return state.self_attention

    first = tf.nest.flatten(caches())
    before = [part.numpy() for part in first]
    for part in first:
        tf.raw_ops.InplaceUpdate(x=part, i=[1], v=tf.fill([1, part.shape[1]], 7.0))
    for part, own in zip(tf.nest.flatten(caches()), before, strict=True):
        np.testing.assert_array_equal(part, own)


def test_fixed_weights_are_read_once_and_others_in_each_call(tiny_config: Any) -> None:
    model = transformer.build(tiny_config(embeddings="untied"))

    def first_step(fixed: bool) -> Any:
        decoding = IncrementalDecoder(model, fixed)

        @tf.function
        def logits() -> tf.Tensor:
            step, state = decoding.start(SOURCE)
            return step(tf.constant([2, 2]), 0, _with_room(step, state, 1))[0]

        return logits

    kept, read = first_step(fixed=True), first_step(fixed=False)
    before = _full(model, SOURCE, TARGET[::3, :1])[:, 0]
    assert before.any()
    np.testing.assert_allclose(kept(), before, atol=2e-5)
    np.testing.assert_allclose(read(), before, atol=2e-5)
    transformer.projection(model).matrix.assign(tf.zeros([13, 8]))
    np.testing.assert_allclose(kept(), before, atol=2e-5)
    assert not read().numpy().any()


def test_position_may_be_a_plain_number(tiny_model: Any) -> None:
    step, state = IncrementalDecoder(tiny_model()).start(SOURCE)
    state = _with_room(step, state, 1)
    tokens = tf.constant([2, 2])
    np.testing.assert_array_equal(step(tokens, 0, state)[0], step(tokens, tf.constant(0), state)[0])


def _loop(model: keras.Model, beam: int) -> Any:
    """Greedy search of five steps in a graph with unknown sizes."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def search(source: tf.Tensor) -> tf.Tensor:
        step, state = IncrementalDecoder(model).start(source, beam)
        rows = tf.shape(source)[0] * beam

        def body(position: tf.Tensor, tokens: tf.Tensor, said: Any, state: Any) -> Any:
            logits, state = step(tokens, position, state)
            # Never padding, which the full pass would mask for later positions.
            tokens = 1 + tf.argmax(logits[:, 1:], axis=-1, output_type=tf.int32)
            return position + 1, tokens, said.write(position, tokens), state

        said = tf.TensorArray(tf.int32, 5, element_shape=[None])
        first = tf.fill([rows], 2)
        _, _, said, _ = tf.while_loop(
            lambda position, *_: position < 5,
            body,
            (0, first, said, _with_room(step, state, 5)),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None]),
                tf.TensorShape(None),
                state_shape_invariants(state),
            ),
        )
        return tf.transpose(said.stack())

    return search


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_loop_in_a_graph(positions: str, tiny_model: Any) -> None:
    model = tiny_model(positions=positions, norm="pre", decoder_layers=2)
    search = _loop(model, 2)
    said = search(SOURCE).numpy()
    assert said.shape == (4, 5)
    # By the full pass, each token is the most probable one after its prefix.
    target = np.concatenate([np.full((4, 1), 2), said[:, :-1]], axis=1).astype("int32")
    likeliest = 1 + _full(model, SOURCE, target)[:, :, 1:].argmax(axis=-1)
    np.testing.assert_array_equal(said, likeliest)
    assert _loop(model, 1)(SOURCE[:, :3]).shape == (2, 5)
    assert search(SOURCE[:0]).shape == (0, 5)  # an empty batch


def test_graph_has_no_operation_that_needs_xla(tiny_model: Any) -> None:
    # A server without XLA refuses such ops when they run.
    for positions, norm in zip(POSITIONS, itertools.cycle(NORM)):
        concrete = _loop(tiny_model(positions=positions, norm=norm), 2).get_concrete_function()
        definition = concrete.graph.as_graph_def()
        nodes = [*definition.node]
        for function in definition.library.function:
            nodes += function.node_def
            assert not function.attr["_XlaMustCompile"].b
        assert any(node.op in ("While", "StatelessWhile") for node in nodes)
        assert [node.op for node in nodes if "xla" in node.op.lower()] == []


@pytest.mark.parametrize("norm", NORM)
def test_forward_returns_logits_and_attention_of_the_model(norm: str, tiny_model: Any) -> None:
    model = tiny_model(norm=norm)
    target = tf.constant([[2, 7, 5, 9], [2, 8, 0, 0]])
    logits, weights = IncrementalDecoder(model).forward(SOURCE, target)
    expected = model({"source": SOURCE, "target": target}, training=False)
    np.testing.assert_allclose(logits, expected, atol=2e-6)
    layers = model.get_layer("decoder").layers
    assert len(weights) == len(layers)
    for each in weights:
        assert each.shape[0] == 2
        assert each.shape[2:] == (4, 4)
        np.testing.assert_allclose(tf.reduce_sum(each, axis=-1), 1.0, atol=1e-6)
        assert not each.numpy()[1, :, :, 2:].any()  # padding of the source
