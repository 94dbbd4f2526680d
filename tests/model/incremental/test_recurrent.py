"""Incremental decoding of the recurrent model, compared with the full pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from keras_transformer.model.incremental.factory import incremental_decoder
from keras_transformer.model.incremental.recurrent import RecurrentIncrementalDecoder

# B = 2, S = 4, the second sentence padded; W = 3 hypotheses of T = 4 tokens for each.
SOURCE = tf.constant([[5, 6, 7, 3], [9, 3, 0, 0]])
TARGET = np.array(
    [[2, 7, 5, 9], [2, 8, 8, 11], [2, 11, 4, 3], [2, 5, 12, 12], [2, 1, 9, 10], [2, 7, 5, 9]],
    "int32",
)


def _full(model: Any, target: np.ndarray) -> np.ndarray:
    """Return the logits (R, T, V) of the full pass."""
    source = tf.repeat(SOURCE, len(target) // 2, axis=0)
    return model({"source": source, "target": tf.constant(target)}, training=False).numpy()


def _steps(step: Any, state: Any, tokens: np.ndarray, first: int = 0) -> tuple[np.ndarray, Any]:
    """Decode the columns of ``tokens`` (R, n): logits (R, n, V), and the state after them."""
    logits = []
    for place, column in enumerate(tokens.T):
        row, state = step(tf.constant(column), tf.constant(first + place), state)
        logits.append(row)
    return np.stack(logits, axis=1), state


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decoder_layers": 3, "encoder_layers": 2, "embeddings": "untied"},
        {"embeddings": "decoder", "source_vocabulary_size": 10},
        {"output_bias": True, "scale_embeddings": False},
    ],
)
def test_steps_equal_the_full_pass(options: dict[str, Any], tiny_model: Any) -> None:
    model = tiny_model(architecture="recurrent", **options)
    logits, _ = _steps(*incremental_decoder(model).start(SOURCE, 3), TARGET)
    np.testing.assert_allclose(logits, _full(model, TARGET), atol=1e-5)


def test_steps_in_bfloat16(tiny_model: Any, tiny_config: Any) -> None:
    model = tiny_model(architecture="recurrent")
    half = transformer.build(tiny_config(architecture="recurrent"), "mixed_bfloat16")
    half.set_weights(model.get_weights())
    logits, _ = _steps(*incremental_decoder(half).start(SOURCE, 3), TARGET)
    exact = _full(model, TARGET)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, exact, atol=0.05 * np.abs(exact).max())


def test_a_source_of_padding_is_finite_and_changes_no_other(tiny_model: Any) -> None:
    decoding = incremental_decoder(tiny_model(architecture="recurrent"))
    source = tf.constant([[5, 6, 7, 3], [0, 0, 0, 0]])
    logits, _ = _steps(*decoding.start(source, 3), TARGET)
    assert np.isfinite(logits).all()
    others, _ = _steps(*decoding.start(SOURCE, 3), TARGET)
    np.testing.assert_allclose(logits[:3], others[:3], atol=1e-6)


def test_rows_and_sentences_may_be_reordered_and_dropped(tiny_model: Any) -> None:
    model = tiny_model(architecture="recurrent", decoder_layers=2)
    step, state = incremental_decoder(model).start(SOURCE, 3)
    _, state = _steps(step, state, TARGET[:, :2])
    # Each sentence continues with other prefixes, one of them twice.
    state = step.reorder(state, tf.constant([[2, 0, 0], [0, 2, 1]]))
    target = np.concatenate([TARGET[[2, 0, 0, 3, 5, 4], :2], TARGET[:, 2:]], axis=1)
    expected = _full(model, target)[:, 2:]
    for sentences in ([0, 1], [1, 0], [1], []):
        rows = np.array([3 * sentence + row for sentence in sentences for row in range(3)], int)
        kept = step.select_and_reserve(state, sentences, 2)
        logits, _ = _steps(step, kept, target[rows, 2:], first=2)
        np.testing.assert_allclose(logits, expected[rows], atol=1e-5)


@pytest.mark.slow
def test_fixed_weights_are_read_once_and_others_in_each_call(tiny_config: Any) -> None:
    model = transformer.build(tiny_config(architecture="recurrent", embeddings="untied"))

    def first_step(fixed: bool) -> Any:
        decoding = incremental_decoder(model, fixed)

        @tf.function
        def logits() -> tf.Tensor:
            step, state = decoding.start(SOURCE)
            return step(tf.constant([2, 2]), 0, state)[0]

        return logits

    kept, read = first_step(fixed=True), first_step(fixed=False)
    before = kept().numpy()
    np.testing.assert_allclose(read(), before, atol=1e-6)
    transformer.projection(model).matrix.assign(tf.zeros([13, 8]))
    np.testing.assert_array_equal(kept(), before)
    assert not read().numpy().any()


def test_forward_returns_logits_and_attention_of_the_model(tiny_model: Any) -> None:
    model = tiny_model(architecture="recurrent", decoder_layers=2)
    target = tf.constant([[2, 7, 5, 9], [2, 8, 0, 0]])
    logits, weights = incremental_decoder(model).forward(SOURCE, target)
    expected = model({"source": SOURCE, "target": target}, training=False)
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    (only,) = weights  # the first layer alone attends
    assert only.shape == (2, 1, 4, 4)
    np.testing.assert_allclose(tf.reduce_sum(only, axis=-1), 1.0, atol=1e-6)
    assert not only.numpy()[1, :, :, 2:].any()


def test_the_architecture_chooses_the_class(tiny_model: Any) -> None:
    recurrent = incremental_decoder(tiny_model(architecture="recurrent"))
    assert type(recurrent) is RecurrentIncrementalDecoder
    assert type(incremental_decoder(tiny_model())) is IncrementalDecoder
