"""Layers without feed-forward sub-layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.encoder import EncoderLayer

MASK = tf.constant([[True, True, True], [True, True, False]])[:, None, None, :]


def test_an_encoder_layer_is_attention_only(tiny_config: Any, scatter: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    layer = EncoderLayer(tiny_config(ablation="no_feed_forward"))
    layer.build(x.shape)
    scatter(layer.weights)
    normalization = layer.self_attention_connection.normalization
    expected = normalization(x + layer.self_attention(x, x, MASK))
    np.testing.assert_allclose(layer(x, MASK), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("ablation", "missing"),
    [
        ("no_feed_forward", {"encoder", "decoder"}),
        ("no_encoder_feed_forward", {"encoder"}),
        ("no_decoder_feed_forward", {"decoder"}),
    ],
)
@pytest.mark.slow
def test_weights_are_missing_where_the_name_says(
    ablation: str, missing: set[str], tiny_model: Any
) -> None:
    model, paper = tiny_model(ablation=ablation), tiny_model()
    for part in ("encoder", "decoder"):
        # D = 8, d_ff = 12: two kernels, two biases, and gain and bias of the normalization.
        less = 2 * 8 * 12 + 12 + 8 + 2 * 8 if part in missing else 0
        count = model.get_layer(part).count_params()
        assert count == paper.get_layer(part).count_params() - less
