"""Hugging Face FSMT: settings, weights, vocabularies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.formats import fsmt
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.sinusoids import sinusoids
from keras_transformer.special_tokens import END, START
from tests.support.foreign_networks import D_MODEL, write_fsmt
from tests.support.reference_network import expected_paths


def test_settings_and_weights(tmp_path: Path) -> None:
    tensors = write_fsmt(tmp_path)
    assert fsmt.recognises(tmp_path)
    model = fsmt.read(tmp_path, ConvertSettings())
    expected = {
        "model.first_position": 2,
        "model.position_layout": "halves",
        "model.layer_norm_epsilon": 1e-5,
        "model.norm": "post",
        # FSMT has one matrix for the target and the output, whatever config.json says.
        "model.embeddings": "decoder",
        "data.source": "en",
        "data.target": "ru",
        "search.beam": 5,
        "search.alpha": 1.1,
    }
    assert expected.items() <= model.settings.items()
    assert set(model.weights) == expected_paths(model)
    matrix = tensors["model.decoder.embed_tokens.weight"]
    for number in (START, END):
        assert np.array_equal(model.weights["target_embedding/matrix"][number], matrix[2])
    kernel = model.weights["decoder/layers/0/cross_attention/key_kernel"]
    name = "model.decoder.layers.0.encoder_attn.k_proj.weight"
    assert np.array_equal(kernel, tensors[name].T)


def test_tokens_have_the_form_of_fairseq(tmp_path: Path) -> None:
    write_fsmt(tmp_path)
    tokenizer = fsmt.read(tmp_path, ConvertSettings()).tokenizer
    (ids,) = tokenizer.source.encode(["the sm@@ all dog"])
    assert 1 not in ids
    assert tokenizer.target.decode([ids]) == ["the small dog"]


def test_stored_positions_may_be_trained_ones(tmp_path: Path) -> None:
    table = np.zeros((9, D_MODEL), np.float32)
    table[2:] = sinusoids(7, D_MODEL, "tensor2tensor", 2)
    write_fsmt(tmp_path, table)
    assert "model.positions" not in fsmt.read(tmp_path, ConvertSettings()).settings
    table[5] += 0.1
    write_fsmt(tmp_path, table)
    model = fsmt.read(tmp_path, ConvertSettings())
    assert model.settings["model.positions"] == "learned"
    assert model.settings["model.max_positions"] == 7
    assert np.array_equal(model.weights["target_positions/table"], table[2:])
    assert set(model.weights) == expected_paths(model)


def test_refused(tmp_path: Path) -> None:
    assert not fsmt.recognises(tmp_path)
    write_fsmt(tmp_path, activation_function="tanh")
    with pytest.raises(ConvertError, match="activation_function: expected one of relu"):
        fsmt.read(tmp_path, ConvertSettings())
    write_fsmt(tmp_path, decoder_start_token_id=99)
    with pytest.raises(ConvertError, match="decoder_start_token_id: expected an id, got 99"):
        fsmt.read(tmp_path, ConvertSettings())
    write_fsmt(tmp_path, model_type="bart")
    with pytest.raises(ConvertError, match="expected 'fsmt', got 'bart'"):
        fsmt.read(tmp_path, ConvertSettings())
