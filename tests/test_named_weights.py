"""Weights by attribute path: every one filled once, in the right shape."""

from __future__ import annotations

import numpy as np
import pytest

from keras_transformer.config import ModelConfig
from keras_transformer.model import transformer
from keras_transformer.named_weights import NamedWeightsError, assign_weights, named_weights

SMALL = {
    "source_vocabulary_size": 7,
    "target_vocabulary_size": 7,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "d_model": 4,
    "heads": 2,
    "d_ff": 6,
}


@pytest.fixture(scope="module")
def model():
    return transformer.build(ModelConfig(**SMALL))


@pytest.fixture
def arrays(model) -> dict[str, np.ndarray]:
    """A different number in each weight."""
    return {
        path: np.full(variable.shape, index / 8, np.float16)
        for index, (path, variable) in enumerate(named_weights(model).items())
    }


def test_paths_are_attributes_of_the_layers(model) -> None:
    found = named_weights(model)

    attention = ("query_kernel", "key_kernel", "value_kernel", "output_kernel")
    dense = ("inner_kernel", "inner_bias", "outer_kernel", "outer_bias")
    expected = {"embedding/matrix"}
    for stack, count, blocks in (
        ("encoder", 2, ("self_attention",)),
        ("decoder", 1, ("self_attention", "cross_attention")),
    ):
        for layer in (f"{stack}/layers/{index}" for index in range(count)):
            expected |= {f"{layer}/{block}/{name}" for block in blocks for name in attention}
            expected |= {f"{layer}/feed_forward/{name}" for name in dense}
            expected |= {
                f"{layer}/{block}_connection/normalization/{name}"
                for block in (*blocks, "feed_forward")
                for name in ("gamma", "beta")
            }
    assert set(found) == expected
    assert {id(variable) for variable in found.values()} == {id(item) for item in model.weights}
    layer = model.get_layer("decoder").layers[0]
    kernel = found["decoder/layers/0/cross_attention/key_kernel"]
    assert kernel is layer.cross_attention.key_kernel


def test_untied_pre_norm_and_learned_positions_have_their_own_paths() -> None:
    config = ModelConfig(**SMALL, embeddings="untied", norm="pre", positions="learned")
    found = named_weights(transformer.build(config))
    assert {
        "source_embedding/matrix",
        "target_embedding/matrix",
        "projection/matrix",
        "encoder/final_norm/gamma",
        "decoder/final_norm/beta",
        "source_positions/table",
        "target_positions/table",
    } <= set(found)


def test_arrays_are_assigned_in_float32(model, arrays) -> None:
    assign_weights(model, arrays)
    for path, variable in named_weights(model).items():
        np.testing.assert_array_equal(variable.numpy(), arrays[path].astype(np.float32))


def test_every_misfit_is_listed_and_nothing_is_assigned(model, arrays) -> None:
    before = [weight.numpy() for weight in model.weights]
    wrong = {path: array + 1 for path, array in arrays.items()}
    del wrong["encoder/layers/1/feed_forward/inner_bias"]
    wrong["encoder/layers/9/feed_forward/inner_bias"] = np.zeros(6, np.float32)
    wrong["decoder/layers/0/feed_forward/inner_kernel"] = np.zeros((6, 4), np.float32)
    wrong["embedding/matrix"] = np.full((7, 4), np.nan)
    with pytest.raises(NamedWeightsError) as error:
        assign_weights(model, wrong)
    message = str(error.value)
    assert "1 missing: encoder/layers/1/feed_forward/inner_bias" in message
    assert "1 unknown to the model: encoder/layers/9/feed_forward/inner_bias" in message
    assert "feed_forward/inner_kernel (expected (4, 6), got (6, 4))" in message
    assert "1 not of finite floating-point numbers: embedding/matrix" in message
    for weight, values in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), values)


def test_a_long_list_is_cut(model) -> None:
    with pytest.raises(NamedWeightsError, match=r"missing: (\S+, ){5}\.\.\.$"):
        assign_weights(model, {})


def test_whole_numbers_are_no_weights(model, arrays) -> None:
    arrays["embedding/matrix"] = np.ones((7, 4), np.int8)  # such as quantized weights
    with pytest.raises(NamedWeightsError, match="floating-point numbers: embedding/matrix"):
        assign_weights(model, arrays)
