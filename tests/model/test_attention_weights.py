"""Attention weights of a whole model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from keras_transformer.model.attention_weights import attention_weights
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from tests.support.model_options import ALL

# B = 2, S = 4, T = 3; the second pair is padded.
SOURCE = np.array([[5, 6, 7, 3], [9, 3, 0, 0]], "int32")
TARGET = np.array([[2, 7, 5], [2, 8, 0]], "int32")

VARIANTS: list[Any] = [
    {"encoder_layers": 2, "decoder_layers": 3},
    *(
        pytest.param(fields, marks=pytest.mark.slow)
        for fields in (
            {"norm": "pre", "positions": "rotary", "embeddings": "untied"},
            {"positions": "alibi", "heads": 4, "embeddings": "decoder"},
            {"attention": "blockwise", "positions": "learned"},
            {"ablation": "batch_normalization"},
            {"ablation": "no_feed_forward"},
            ALL,
        )
    ),
]


@pytest.mark.parametrize("fields", VARIANTS)
def test_weights_of_every_layer(fields: dict[str, Any], tiny_model: Any) -> None:
    model = tiny_model(**fields)
    weights = attention_weights(model, SOURCE, TARGET)
    config = model.get_layer("encoder").config
    allowed = {
        "encoder": (SOURCE != 0)[:, None, None, :],
        "decoder": (TARGET != 0)[:, None, None, :] & np.tri(3, dtype=bool),
        "cross": (SOURCE != 0)[:, None, None, :],
    }
    counts = config.encoder_layers, config.decoder_layers, config.decoder_layers
    queries = {"encoder": 4, "decoder": 3, "cross": 3}
    for (kind, layers), count in zip(weights._asdict().items(), counts, strict=True):
        assert len(layers) == count
        for layer in layers:
            assert layer.dtype == np.float32
            keys = allowed[kind].shape[-1]
            heads = config.side("encoder" if kind == "encoder" else "decoder").heads
            assert layer.shape == (2, heads, queries[kind], keys)
            np.testing.assert_allclose(layer.sum(axis=-1), 1.0, atol=1e-6)
            assert not layer[~np.broadcast_to(allowed[kind], layer.shape)].any()
            # Scattered weights attend to all allowed keys, and not evenly. (Moving statistics do
            # not fit them: scores are large, and a weight may be rounded to 0.)
            if config.ablation != "batch_normalization":
                assert (layer[np.broadcast_to(allowed[kind], layer.shape)] > 0).all()
    _, cross = IncrementalDecoder(model).forward(tf.constant(SOURCE), tf.constant(TARGET))
    for found, expected in zip(weights.cross, cross, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_first_layer_by_hand(tiny_model: Any) -> None:
    """softmax(Q Kᵀ / sqrt(d_k)) of the embeddings, equation 1, in NumPy."""
    model = tiny_model(positions="none")
    weights = attention_weights(model, SOURCE, TARGET)
    rows = transformer.source_embedding(model).matrix.numpy()[SOURCE[0]] * 8**0.5  # (S, D)
    attention = model.get_layer("encoder").layers[0].self_attention
    queries, keys = (
        (rows @ kernel.numpy()).reshape(4, 2, 4)
        for kernel in (attention.query_kernel, attention.key_kernel)
    )
    scores = np.einsum("thk,shk->hts", queries, keys) / 4**0.5
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = exponentials / exponentials.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights.encoder[0][0], expected, atol=1e-5)


def test_a_source_of_padding_has_no_weights(tiny_model: Any) -> None:
    weights = attention_weights(tiny_model(), SOURCE * [[1], [0]], TARGET)
    assert not weights.encoder[0][1].any()
    assert not weights.cross[0][1].any()
    np.testing.assert_allclose(weights.cross[0][0].sum(axis=-1), 1.0, atol=1e-6)


@pytest.mark.slow
def test_a_recurrent_model_has_cross_attention_only() -> None:
    config = ModelConfig(
        architecture="recurrent",
        source_vocabulary_size=13,
        target_vocabulary_size=13,
        encoder_layers=1,
        decoder_layers=1,
        d_model=8,
    )
    weights = attention_weights(transformer.build(config), SOURCE, TARGET)
    assert weights.encoder == weights.decoder == []
    (cross,) = weights.cross
    assert cross.shape == (2, 1, 3, 4)
    np.testing.assert_allclose(cross[0].sum(axis=-1), 1.0, atol=1e-6)
    assert not cross[1, :, :, 2:].any()
