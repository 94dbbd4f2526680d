"""Hugging Face MarianMT: settings, weights by path, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.formats import hf_marian
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.sinusoids import sinusoids
from keras_transformer.convert.vocabulary_rows import LACKING_BIAS
from keras_transformer.special_tokens import END, PAD, START
from tests.support.foreign_models import (
    D_MODEL,
    hf_config,
    hf_shapes,
    random_tensors,
    vocabulary,
    write_hf_folder,
    write_json,
    write_safetensors,
)

SIZE = len(vocabulary()) + 1


def read(source: Path, **settings: Any) -> ForeignModel:
    return hf_marian.read(source, ConvertSettings(**settings))


def test_weights_by_path(tmp_path: Path) -> None:
    tensors = write_hf_folder(tmp_path)
    weights = read(tmp_path).weights
    shared, bias = tensors["model.shared.weight"], tensors["final_logits_bias"][0]
    for ours, theirs in ((PAD, SIZE - 1), (END, 0), (START, SIZE - 1)):
        np.testing.assert_array_equal(weights["embedding/matrix"][ours], shared[theirs])
    # Padding is in the softmax there, and the start token, the same row, is not a second time.
    assert weights["embedding/output_bias"][PAD] == bias[SIZE - 1]
    assert weights["embedding/output_bias"][START] == LACKING_BIAS
    for ours, theirs in (
        ("encoder/layers/1/self_attention/value_kernel", "encoder.layers.1.self_attn.v_proj"),
        ("decoder/layers/0/cross_attention/query_kernel", "decoder.layers.0.encoder_attn.q_proj"),
        ("decoder/layers/0/feed_forward/inner_kernel", "decoder.layers.0.fc1"),
    ):
        np.testing.assert_array_equal(weights[ours], tensors[f"model.{theirs}.weight"].T)
        bias = tensors[f"model.{theirs}.bias"]
        np.testing.assert_array_equal(weights[ours.replace("_kernel", "_bias")], bias)
    for ours, theirs in (
        ("decoder/layers/0/cross_attention", "decoder.layers.0.encoder_attn_layer_norm"),
        ("encoder/layers/0/feed_forward", "encoder.layers.0.final_layer_norm"),
    ):
        gamma = weights[f"{ours}_connection/normalization/gamma"]
        np.testing.assert_array_equal(gamma, tensors[f"model.{theirs}.weight"])
    assert sum(weight.size for weight in weights.values()) == sum(
        tensor.size for tensor in tensors.values()
    ) + (D_MODEL + 1)  # the row of the start token


def test_settings(tmp_path: Path) -> None:
    write_hf_folder(tmp_path)
    model = read(tmp_path)
    expected = {
        "model.activation": "silu",
        "model.embeddings": "tied",
        "model.position_layout": "halves",
        "model.position_rates": "paper",
        "model.layer_norm_epsilon": 1e-5,
        "model.scale_embeddings": True,
        "search.beam": 4,
        "search.max_extra": 511,
        "search.allow_unknown": True,
        "data.source": "eng",
        "data.target": "deu",
        "data.max_tokens": 512,
    }
    assert expected.items() <= model.settings.items()


def test_rates_of_marian_are_an_option(tmp_path: Path) -> None:
    write_hf_folder(tmp_path)
    model = read(tmp_path, position_rates="tensor2tensor")
    assert model.settings["model.position_rates"] == "tensor2tensor"
    assert "Hugging Face computes with the paper's, so its scores differ" in model.notes[-1]
    assert "--position_rates tensor2tensor takes" in read(tmp_path).notes[-1]


def test_stored_sinusoids(tmp_path: Path) -> None:
    tensors = write_hf_folder(tmp_path)
    names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]

    def stored(table: np.ndarray, dtype: Any = np.float16) -> ForeignModel:
        tables = {name: table.astype(dtype) for name in names}
        write_safetensors(tmp_path / "model.safetensors", tensors | tables)
        return read(tmp_path)

    model = stored(sinusoids(64, D_MODEL, "tensor2tensor"))
    assert model.settings["model.position_rates"] == "tensor2tensor"
    assert "rounded to float16" in "".join(model.notes)
    assert "rounded" not in "".join(stored(sinusoids(64, D_MODEL, "paper"), np.float32).notes)
    model = read(tmp_path, stored_positions=True)
    assert model.settings["model.positions"] == "learned"
    assert model.settings["model.max_positions"] == 64
    table = model.weights["target_positions/table"]
    np.testing.assert_array_equal(table, sinusoids(64, D_MODEL, "paper").astype(np.float32))
    other = np.arange(64 * D_MODEL, dtype=np.float32).reshape(64, D_MODEL)
    with pytest.raises(ConvertError, match="expected sinusoids.*--stored_positions true takes"):
        stored(other)
    table = read(tmp_path, stored_positions=True).weights["source_positions/table"]
    np.testing.assert_array_equal(table, other)
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(ConvertError, match="stored_positions: expected two tables, got 0"):
        read(tmp_path, stored_positions=True)
    with pytest.raises(ConvertError, match="expected sinusoids"):
        stored(np.ones((64, D_MODEL)))


def test_copies_of_tied_matrices_must_be_equal(tmp_path: Path) -> None:
    tensors = write_hf_folder(tmp_path)
    copies = ("model.encoder.embed_tokens.weight", "lm_head.weight")
    tensors |= dict.fromkeys(copies, tensors["model.shared.weight"])
    write_safetensors(tmp_path / "model.safetensors", tensors)
    assert read(tmp_path).settings["model.embeddings"] == "tied"
    tensors["lm_head.weight"] = tensors["lm_head.weight"] + 1
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(ConvertError, match=r"lm_head.weight: expected the same matrix as"):
        read(tmp_path)


def test_embeddings_of_two_vocabularies(tmp_path: Path) -> None:
    targets = [*vocabulary()[:20], "<pad>"]
    shapes = hf_shapes(SIZE) | {
        "model.encoder.embed_tokens.weight": (SIZE, D_MODEL),
        "model.decoder.embed_tokens.weight": (21, D_MODEL),
        "final_logits_bias": (1, 21),
        "lm_head.weight": (21, D_MODEL),
    }
    del shapes["model.shared.weight"]
    tensors = random_tensors(shapes)
    config = {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "decoder_vocab_size": 21,
        "pad_token_id": 20,
        "decoder_start_token_id": 20,
    }
    write_hf_folder(tmp_path, tensors, **config)
    write_json(tmp_path / "target_vocab.json", {token: row for row, token in enumerate(targets)})
    model = read(tmp_path)
    assert model.settings["model.embeddings"] == "untied"
    weights = model.weights
    decoder, output = tensors["model.decoder.embed_tokens.weight"], tensors["lm_head.weight"]
    np.testing.assert_array_equal(weights["target_embedding/matrix"][START], decoder[20])
    np.testing.assert_array_equal(weights["projection/matrix"][END], output[0])
    assert not weights["projection/matrix"][START].any()

    del tensors["lm_head.weight"]
    write_hf_folder(tmp_path, tensors, **config | {"tie_word_embeddings": True})
    model = read(tmp_path)
    assert model.settings["model.embeddings"] == "decoder"
    assert "projection/matrix" not in model.weights


def test_sides_may_differ(tmp_path: Path) -> None:
    config = hf_config(SIZE) | {"decoder_attention_heads": 4}
    write_hf_folder(tmp_path, **config)
    assert read(tmp_path).settings["model.decoder_heads"] == 4
    write_hf_folder(tmp_path, **config | {"decoder_attention_heads": 2})
    assert read(tmp_path).settings["model.decoder_heads"] == 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"activation_function": "tanh"}, "activation_function: expected one of swish"),
        ({"normalize_before": True}, "normalize_before: expected False, as MarianMT computes"),
        ({"static_position_embeddings": False}, "static_position_embeddings: expected True"),
        ({"d_model": "512"}, "d_model: expected a number above 0, got '512'"),
        ({"vocab_size": 7}, r"vocab.json: expected 7 tokens, as many as config.json says"),
        ({"pad_token_id": 9999}, "pad_token_id: expected 0 to"),
        ({"encoder_layers": 1}, "found also model.encoder.layers.1"),
        ({"encoder_layers": 3}, "expected the tensor model.encoder.layers.2"),
        ({"model_type": "mbart"}, "model_type: expected 'marian', got 'mbart'"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, config: Any, message: str) -> None:
    write_hf_folder(tmp_path, **config)
    with pytest.raises(ConvertError, match=message):
        read(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    write_hf_folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ConvertError, match=r"expected model.safetensors or pytorch_model.bin"):
        read(tmp_path)
    (tmp_path / "target.spm").unlink()
    with pytest.raises(ConvertError, match=r"target.spm: cannot be read"):
        read(tmp_path)
    with pytest.raises(ConvertError, match=r"expected the folder with config.json, got a file"):
        read(tmp_path / "config.json")


@pytest.mark.slow
def test_punctuation_of_opus_is_an_option(tmp_path: Path) -> None:
    write_hf_folder(tmp_path)
    before, after = read(tmp_path), read(tmp_path, preprocess="opus")

    line = "a small\u200ddog"  # the joiner is a space in the script, and unknown otherwise
    plain = before.tokenizer.source.encode(["a small dog"])
    assert before.tokenizer.source.encode([line]) != plain
    assert after.tokenizer.source.encode([line]) == plain
