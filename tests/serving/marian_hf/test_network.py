"""Weights for MarianMT: its formulas give the logits of the run, whatever options the run has."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from keras_transformer.named_weights import named_weights
from keras_transformer.serving.marian_hf.network import MarianNetwork
from keras_transformer.serving.marian_hf.vocabulary import MarianVocabulary
from keras_transformer.special_tokens import END, LACKING_BIAS, PAD, START, UNKNOWN
from tests.support import numpy_marian

SIZE, POSITIONS = 13, 9
SMALL = ModelConfig(
    source_vocabulary_size=SIZE,
    target_vocabulary_size=SIZE,
    encoder_layers=2,
    decoder_layers=2,
    d_model=8,
    heads=2,
    d_ff=12,
)
MARIAN: dict[str, Any] = {
    "activation": "silu",
    "attention_bias": True,
    "output_bias": True,
    "layer_norm_epsilon": 1e-5,
    "position_layout": "halves",
}
KINDS: dict[str, dict[str, Any]] = {
    "MarianMT's": MARIAN,
    "the paper's": {},
    "Marian's": MARIAN | {"layer_norm_epsilon": 1e-6, "position_rates": "tensor2tensor"},
    "untied, learned": MARIAN
    | {
        "embeddings": "untied",
        "positions": "learned",
        "position_layout": "interleaved",
        "max_positions": 5,  # later ones share the last
        "layer_norm_epsilon": 1e-3,
        "activation": "gelu",
        "source_vocabulary_size": SIZE + 4,
    },
    "shared by the decoder, none": {
        "embeddings": "decoder",
        "positions": "none",
        "activation": "gelu_tanh",
        "scale_embeddings": False,
        "layer_norm_epsilon": 0.05,
    },
    "sides differ": MARIAN
    | {
        "activation": "gelu_sigmoid",
        "decoder_heads": 4,
        "decoder_d_ff": 10,
        "first_position": 2,
        "encoder_layers": 1,
    },
}
SOURCE = [7, 4, UNKNOWN, 9, 12, 5, END]
LABELS = [6, UNKNOWN, 11, 8, 4, 10, 12, END]


def built(**fields: Any) -> tuple[keras.Model, ModelConfig]:
    """Return a model with random weights, whose norms and biases are not 1 and 0."""
    config = dataclasses.replace(SMALL, **fields)
    model = transformer.build(config)
    random = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(weight + random.normal(0.0, 0.3, weight.shape))
    return model, config


def vocabulary(size: int, pad: int) -> MarianVocabulary:
    rows = [END, UNKNOWN, *range(END + 1, size)]
    rows.insert(pad, PAD)
    names = {END: "</s>", UNKNOWN: "<unk>", PAD: "<pad>"}
    return MarianVocabulary([names.get(row, f"piece {row}") for row in rows], np.array(rows))


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "the paper's")) for kind in KINDS],
)
def test_logits(kind: str) -> None:
    model, config = built(**KINDS[kind])
    pad = SIZE - 2
    source, target = vocabulary(config.source_vocabulary_size, pad), vocabulary(SIZE, pad)
    network = MarianNetwork(model, config, POSITIONS)
    assert network.has_tables == (kind != "MarianMT's")
    tensors, described = network.tensors(source, target), network.config(source, target)
    assert all(tensor.dtype == np.float32 for tensor in tensors.values())

    ids = [list(source.rows).index(token) for token in SOURCE]
    labels = [list(target.rows).index(token) for token in LABELS]
    found = numpy_marian.logits(tensors, described, ids, labels)
    inputs = {"source": np.array([SOURCE]), "target": np.array([[START, *LABELS[:-1]]])}
    expected = np.array(model(inputs, training=False))[0][:, target.rows]
    found, expected = (np.delete(values, pad, axis=1) for values in (found, expected))
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.slow
def test_padding_takes_the_weights_of_the_start_token() -> None:
    model, config = built(**MARIAN)
    both = vocabulary(SIZE, SIZE - 2)
    matrix, bias = model.get_layer("embedding").matrix, model.get_layer("embedding").output_bias
    network = MarianNetwork(model, config, POSITIONS)
    assert not network.start_is_padding()
    tensors = network.tensors(both, both)
    np.testing.assert_array_equal(tensors["model.shared.weight"][both.pad], matrix[START])
    assert tensors["final_logits_bias"][0, both.pad] == bias.numpy()[START]

    rows = matrix.numpy()
    rows[START] = rows[PAD]
    matrix.assign(rows)
    network = MarianNetwork(model, config, POSITIONS)
    assert network.start_is_padding()
    assert network.tensors(both, both)["final_logits_bias"][0, both.pad] == bias.numpy()[PAD]


@pytest.mark.slow
@pytest.mark.parametrize("embeddings", ["tied", "untied"])
def test_tokens_that_the_vocabulary_lacked(embeddings: str) -> None:
    model, config = built(**MARIAN, embeddings=embeddings)
    assert MarianNetwork(model, config, POSITIONS).lacking() == (set(), set())
    for path, weight in named_weights(model).items():
        values = weight.numpy()
        if path.endswith("embedding/matrix"):
            values[[5, 7]] = values[UNKNOWN]
        if path in ("embedding/output_bias", "projection/output_bias"):
            values[[7, 9]] = LACKING_BIAS
        weight.assign(values)
    read, written = MarianNetwork(model, config, POSITIONS).lacking()
    assert written == {7}
    assert read == ({5, 7} if embeddings == "untied" else {7})
