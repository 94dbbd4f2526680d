"""Measurements on a batch, with values worked out by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import Config, DataConfig, ModelConfig, TrainConfig
from keras_transformer.lab import measurements
from keras_transformer.lab.measurements import Batch
from keras_transformer.run import Run, RunError
from keras_transformer.training.step import build_model

PROBABILITIES = np.array(
    [
        [[0.95, 0.03, 0.01, 0.01], [0.0, 0.55, 0.25, 0.2], [0.1, 0.1, 0.1, 0.7]],
        [[0.0, 0.1, 0.58, 0.32], [0.97, 0.01, 0.01, 0.01], [0.97, 0.01, 0.01, 0.01]],
    ],
    "float32",
)
"""(B, T, V) of two targets of 3 and 1 tokens."""


class _Fixed:
    """A model with the same probabilities for every input."""

    def __call__(self, inputs: Any, training: bool) -> tf.Tensor:
        assert not training
        return tf.math.log(PROBABILITIES + 1e-9)


BATCH = Batch(
    np.array([[5, 6, 3], [7, 3, 0]], "int32"),
    np.array([[2, 1, 2], [2, 0, 0]], "int32"),
    np.array([[1, 1, 3], [2, 0, 0]], "int32"),
    9,
)


def test_negative_log_likelihood_by_hand() -> None:
    # P of the labels: 0.03, 0.55 and 0.7; 0.58. Padding does not count.
    expected = -math.log(0.03 * 0.55 * 0.7 * 0.58)
    assert measurements.negative_log_likelihood(_Fixed(), BATCH) == pytest.approx(expected, 1e-5)
    assert BATCH.tokens == 4


def test_reliability_by_hand() -> None:
    curve = measurements.reliability(_Fixed(), BATCH)
    # Most probable: 0.95 (wrong), 0.55 and 0.58 (right, in one bin), 0.7 (right).
    assert curve["tokens"] == [0, 0, 0, 0, 0, 2, 0, 1, 0, 1] or curve["tokens"] == [
        *(0, 0, 0, 0, 0, 2, 1, 0, 0, 1)  # 0.7 in float32 is just below or above the border
    ]
    filled = [
        (round(c, 4), a)
        for c, a in zip(curve["confidence"], curve["accuracy"], strict=True)
        if c is not None
    ]
    assert filled == [(0.565, 1.0), (0.7, 1.0), (0.95, 0.0)]
    expected = (2 * 0.435 + 0.3 + 0.95) / 4
    assert measurements.calibration_error(curve) == pytest.approx(expected, 1e-5)


def test_attention_entropy_by_hand() -> None:
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], "float32")
    allowed = np.tri(3, dtype=bool)
    nats, relative = measurements.attention_entropy(weights[None, None], allowed[None, None])
    assert nats == pytest.approx((math.log(2) + math.log(3)) / 3, 1e-6)
    assert relative == pytest.approx(1.0)  # even weights, of the two queries with a choice
    # The third query is padding: whatever its weights are, it does not count.
    allowed[2] = False
    nats, _ = measurements.attention_entropy(weights[None, None], allowed[None, None])
    assert nats == pytest.approx(math.log(2) / 2, 1e-6)
    # All weight on one of two keys.
    sharp = np.array([[[[0.0, 1.0]]]], "float32")
    found = measurements.attention_entropy(sharp, np.ones((1, 1, 1, 2), bool))
    np.testing.assert_allclose(found, (0.0, 0.0), atol=1e-6)


def test_each_target_gets_another_source() -> None:
    shuffled = measurements.shuffled_sources(BATCH)
    np.testing.assert_array_equal(shuffled.source, [[7, 3, 0], [5, 6, 3]])
    np.testing.assert_array_equal(shuffled.labels, BATCH.labels)


# A run


PAIRS = [("a b c", "c b a"), ("d e f", "f e d"), ("a d", "d a"), ("b b e", "e b b")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("lab")
    for name in ("train", "dev"):
        for place, language in enumerate("xy"):
            text = "".join(f"{pair[place]}\n" for pair in PAIRS)
            (folder / f"{name}.{language}").write_text(text)
    config = Config(
        model=ModelConfig(encoder_layers=2, decoder_layers=1, d_model=8, heads=2, d_ff=12),
        data=DataConfig(
            train=str(folder / "train"),
            dev=str(folder / "dev"),
            source="x",
            target="y",
            vocabulary_size=300,
        ),
        train=TrainConfig(seed=7),
    )
    run, _ = Run.create(folder / "run", config, lambda line: None)
    return run


@pytest.mark.slow
def test_the_batch_of_a_run(run: Run) -> None:
    batch = measurements.dev_batch(run, 3)
    assert len(batch.source) == 3
    assert batch.characters == 5 + 5 + 3
    tokenizer = run.tokenizer()
    row = batch.labels[0][batch.labels[0] != 0].tolist()
    assert row[-1] == 3
    assert tokenizer.target.decode([row[:-1]]) == ["c b a"]
    assert batch.target[0, 0] == 2
    np.testing.assert_array_equal(batch.target[0, 1 : len(row)], row[:-1])


@pytest.mark.slow
def test_measurements_of_initial_and_stored_weights(run: Run) -> None:
    keras.utils.set_random_seed(7)
    trained = build_model(run.config, 1)
    for ours, theirs in zip(
        measurements.load_model(run).get_weights(), trained.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    found = measurements.measure(run)
    json.dumps(found, allow_nan=False)
    assert found["ln_vocabulary"] == math.log(run.config.model.target_vocabulary_size)
    assert abs(found["nll_per_token"] - found["ln_vocabulary"]) < 1.5
    assert found["nll_per_character"] == pytest.approx(
        found["nll_per_token"] * found["tokens"] / found["characters"]
    )
    layers = ["embedding", "encoder_0", "encoder_1", "decoder_0"]
    assert list(found["gradient_norm"]) == list(found["activation_norm"]) == layers
    assert len(found["rank_distance"]) == 3
    counts = {kind: len(values) for kind, values in found["attention_entropy"].items()}
    assert counts == {"encoder": 2, "decoder": 1, "cross": 1}
    assert sum(found["reliability"]["tokens"]) == found["tokens"]
    assert found["nll_shuffled_sources"] != found["nll_per_token"]
    # Other weights, other values.
    trained.set_weights([0.5 * weight for weight in trained.get_weights()])
    run.save_best(trained)
    assert measurements.measure(run, run.best_weights)["nll_per_token"] != found["nll_per_token"]
    with pytest.raises(RunError, match=r"none\.weights\.h5: cannot be loaded"):
        measurements.measure(run, Path("none.weights.h5"))
