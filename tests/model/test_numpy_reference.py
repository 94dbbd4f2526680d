"""The whole model with each option, compared with a Transformer in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from tests.support import model_options, numpy_transformer
from tests.support.numpy_transformer import Choices

# The second pair is padded.
SOURCES = [[5, 6, 7, 8, 3], [9, 3]]
TARGETS = [[2, 7, 5, 9], [2, 8]]

_ATTENTION = tuple(
    f"{part}_{kind}" for kind in ("kernel", "bias") for part in ("query", "key", "value", "output")
)
_FEED_FORWARD = ("inner_kernel", "inner_bias", "outer_kernel", "outer_bias")
_NORM = ("gamma", "beta")


def _parts(layer: Any) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield path, layer and weights of each part of an encoder or decoder layer."""
    names = ["self_attention", "feed_forward"]
    if hasattr(layer, "cross_attention"):
        names.append("cross_attention")
    for name in names:
        weights = _FEED_FORWARD if name == "feed_forward" else _ATTENTION
        yield name, getattr(layer, name), weights
        connection = getattr(layer, f"{name}_connection")
        yield f"{name}_connection/normalization", connection.normalization, _NORM


def _weights(model: keras.Model) -> dict[str, np.ndarray]:
    """Return the weights of a model by the paths of the reference."""
    found = {
        "source": transformer.source_embedding(model).matrix,
        "target": transformer.target_embedding(model).matrix,
        "projection": transformer.projection(model).matrix,
    }
    bias = transformer.projection(model).output_bias
    if bias is not None:
        found["output_bias"] = bias

    def add(path: str, layer: Any, names: tuple[str, ...]) -> None:
        weights = {f"{path}/{name}": getattr(layer, name) for name in names}
        found.update({name: value for name, value in weights.items() if value is not None})

    for side in ("encoder", "decoder"):
        stack = model.get_layer(side)
        for i, layer in enumerate(stack.layers):
            for path, part, names in _parts(layer):
                add(f"{side}/layers/{i}/{path}", part, names)
        if stack.final_norm is not None:
            add(f"{side}/final_norm", stack.final_norm, _NORM)
    for name in ("source_positions", "target_positions"):
        layer = model.get_layer(name)
        if hasattr(layer, "normalization"):
            add(f"{name}/normalization", layer.normalization, _NORM)
        if layer.weights and hasattr(layer, "table"):
            add(name, layer, ("table",))
    assert len({id(weight) for weight in found.values()}) == len(model.weights)
    return {path: weight.numpy().astype("float64") for path, weight in found.items()}


def _choices(config: ModelConfig) -> Choices:
    """Return the choices of the reference, from the meaning of each option."""
    decoder_norm = config.norm if config.decoder_norm == "same" else config.decoder_norm
    pre = config.norm == "pre", decoder_norm == "pre"
    final = {
        "auto": pre,
        "both": (True, True),
        "encoder": (True, False),
        "decoder": (False, True),
        "none": (False, False),
    }
    return Choices(
        heads=(config.heads, config.decoder_heads or config.heads),
        pre_norm=pre,
        final_norm=final[config.final_norm],
        activation=config.activation,
        epsilon=config.layer_norm_epsilon,
        positions=config.positions,
        halves=config.position_layout == "halves",
        last_rate=config.position_rates == "tensor2tensor",
        first_position=config.first_position,
        embedding_norm=config.embedding_norm,
        scale=config.d_model**0.5 if config.scale_embeddings else 1.0,
    )


def _padded(rows: list[list[int]]) -> tf.Tensor:
    return tf.ragged.constant(rows).to_tensor()


@pytest.mark.parametrize("fields", [pytest.param({}, id="paper"), *model_options.cases()])
def test_logits_equal_those_of_numpy(
    fields: dict[str, Any],
    tiny_config: Callable[..., ModelConfig],
    tiny_model: Callable[..., keras.Model],
) -> None:
    model, config = tiny_model(**fields), tiny_config(**fields)
    inputs = {"source": _padded(SOURCES), "target": _padded(TARGETS)}
    found = model(inputs, training=False).numpy()
    weights, choices = _weights(model), _choices(config)
    for row, source, target in zip(found, SOURCES, TARGETS, strict=True):
        expected = numpy_transformer.logits(weights, choices, source, target)
        np.testing.assert_allclose(row[: len(target)], expected, atol=2e-5 * np.abs(expected).max())
