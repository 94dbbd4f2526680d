"""CTranslate2: variables, vocabularies, integers, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.formats import ctranslate2
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.vocabulary_rows import LACKING_BIAS
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN
from tests.support.foreign_networks import (
    D_MODEL,
    SIZE,
    WORDS,
    ctranslate2_tensors,
    write_ctranslate2,
)
from tests.support.reference_network import expected_paths


def read(source: Path, **settings: Any) -> ForeignModel:
    return ctranslate2.read(source, ConvertSettings(**settings))


def test_settings_and_weights(tmp_path: Path) -> None:
    variables = write_ctranslate2(tmp_path)
    assert ctranslate2.recognises(tmp_path)
    model = read(tmp_path)
    expected = {
        "model.heads": 2,
        "model.norm": "pre",
        "model.final_norm": "auto",
        "model.activation": "silu",
        "model.layer_norm_epsilon": 1e-5,
        "model.position_layout": "halves",
        "model.position_rates": "tensor2tensor",
        "model.first_position": 1,
        "model.embeddings": "untied",
        "model.output_bias": True,
        "model.d_key": 0,
        "data.source_end": False,
        "search.length_penalty": "power",
    }
    assert expected.items() <= model.settings.items()
    assert set(model.weights) == expected_paths(model)
    for number, row in ((PAD, 0), (UNKNOWN, SIZE - 1), (START, 1), (END, 2)):
        matrix = variables["decoder/projection/weight"]
        assert np.array_equal(model.weights["projection/matrix"][number], matrix[row])
    joint = variables["encoder/layer_1/self_attention/linear_0/weight"]
    for number, name in enumerate(("query", "key", "value")):
        part = joint[number * D_MODEL : (number + 1) * D_MODEL]
        kernel = model.weights[f"encoder/layers/1/self_attention/{name}_kernel"]
        assert np.array_equal(kernel, part.T)
    bias = variables["decoder/layer_0/attention/linear_1/bias"]
    ours = model.weights["decoder/layers/0/cross_attention/value_bias"]
    assert np.array_equal(ours, bias[D_MODEL:])


def test_equal_matrices_are_tied(tmp_path: Path) -> None:
    variables = ctranslate2_tensors(bias=False)
    names = ["encoder/embeddings_0/weight", "decoder/embeddings/weight"]
    for name in names:
        del variables[name]
    write_ctranslate2(tmp_path, variables, dict.fromkeys(names, "decoder/projection/weight"))
    model = read(tmp_path)
    assert model.settings["model.embeddings"] == "tied"
    assert model.settings["model.attention_bias"] is False
    assert set(model.weights) == expected_paths(model)


@pytest.mark.parametrize("first", [0, 2])
def test_stored_positions(first: int, tmp_path: Path) -> None:
    angles = np.arange(first, first + 9)[:, None] * 10_000.0 ** -(np.arange(4) / 3)
    halves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float16)
    variables = ctranslate2_tensors()
    tables = {f"{side}/position_encodings/encodings": halves for side in ("encoder", "decoder")}
    write_ctranslate2(tmp_path, variables | tables)
    settings = read(tmp_path).settings
    assert settings["model.positions"] == "sinusoidal"
    assert settings["model.first_position"] == first
    assert settings["model.position_rates"] == "tensor2tensor"


def test_learned_positions(tmp_path: Path) -> None:
    table = np.random.default_rng(1).normal(size=(9, D_MODEL)).astype(np.float32)
    tables = {f"{side}/position_encodings/encodings": table for side in ("encoder", "decoder")}
    write_ctranslate2(tmp_path, ctranslate2_tensors() | tables)
    model = read(tmp_path)
    assert model.settings["model.positions"] == "learned"
    assert model.settings["model.max_positions"] == 9
    assert np.array_equal(model.weights["source_positions/table"], table)


def test_the_start_may_be_the_end_or_zeros(tmp_path: Path) -> None:
    write_ctranslate2(tmp_path, decoder_start_token="</s>", add_source_eos=True)
    model = read(tmp_path)
    assert model.settings["data.source_end"] is True
    matrix = model.weights["target_embedding/matrix"]
    assert np.array_equal(matrix[START], matrix[END])
    assert model.weights["projection/output_bias"][START] == LACKING_BIAS
    zero = {"decoder/start_from_zero_embedding": np.array(1, np.int8)}
    write_ctranslate2(tmp_path, ctranslate2_tensors() | zero)
    assert not read(tmp_path).weights["target_embedding/matrix"][START].any()


def test_integers_need_an_option(tmp_path: Path) -> None:
    variables = ctranslate2_tensors()
    names = ("encoder/layer_0/ffn/linear_0/weight", "decoder/embeddings/weight")
    whole = {name: variables[name] for name in names}
    for name, value in whole.items():
        scale = 127 / np.abs(value).max(axis=1)
        variables[name] = np.rint(value * scale[:, None]).astype(np.int8)
        variables[f"{name}_scale"] = scale.astype(np.float32)
    write_ctranslate2(tmp_path, variables)
    with pytest.raises(ConvertError, match=r"2 matrices are stored as int8.*--dequantize true"):
        read(tmp_path)
    model = read(tmp_path, dequantize=True)
    kernel = model.weights["encoder/layers/0/feed_forward/inner_kernel"]
    np.testing.assert_allclose(kernel, whole[names[0]].T, atol=0.01)
    assert any("that rounded one, not the trained one" in note for note in model.notes)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"encoder/layer_0/self_attention/rotary_dim": np.array(0, np.int32)}, "rotary_dim 0"),
        ({"decoder/alibi": np.array(1, np.int8)}, "decoder/alibi 1"),
        ({"decoder/layer_0/layer_scalar": np.array(2, np.float32)}, "layer_scalar 2"),
        ({"encoder/embeddings_1/weight": np.zeros((3, 4), np.float32)}, "several sources"),
        ({"decoder/activation": np.array(5, np.int8)}, r"got \[2, 5\]"),
        ({"encoder/x/relative_position_keys": np.zeros((3, 4), np.float32)}, "relative_position"),
        ({"decoder/project_in/weight": np.zeros((3, 4), np.float32)}, "decoder/project_in"),
    ],
)
def test_refused_variables(more: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    write_ctranslate2(tmp_path, ctranslate2_tensors() | more)
    with pytest.raises(ConvertError, match=message):
        read(tmp_path)


def test_refused_settings(tmp_path: Path) -> None:
    variables = ctranslate2_tensors()
    del variables["decoder/layer_norm/beta"]
    write_ctranslate2(tmp_path, variables)
    with pytest.raises(ConvertError, match="decoder/layer_norm: RMSNorm"):
        read(tmp_path)
    write_ctranslate2(tmp_path, decoder_start_token=None)
    with pytest.raises(ConvertError, match="got null"):
        read(tmp_path)
    write_ctranslate2(tmp_path, add_source_bos=True)
    with pytest.raises(ConvertError, match="add_source_bos"):
        read(tmp_path)
    write_ctranslate2(tmp_path, tokens=WORDS)
    with pytest.raises(ConvertError, match="expected the unk_token '<unk>', found none"):
        read(tmp_path)
    (tmp_path / "shared_vocabulary.json").unlink()
    with pytest.raises(ConvertError, match="expected source_vocabulary or shared_vocabulary"):
        read(tmp_path)


def test_without_config_the_defaults_of_earlier_versions(tmp_path: Path) -> None:
    write_ctranslate2(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "shared_vocabulary.json").unlink()
    tokens = ["<blank>", "<s>", "</s>", *WORDS, "<unk>"]
    for side in ("source", "target"):
        (tmp_path / f"{side}_vocabulary.txt").write_text("\n".join(tokens) + "\n")
    assert read(tmp_path).settings["data.source_end"] is False
