"""JoeyNMT: configurations of both versions, weights, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.formats import joeynmt
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN
from tests.support.foreign_networks import D_MODEL, joey_tensors, write_joey
from tests.support.reference_network import expected_paths

FEED_FORWARD = "encoder.layers.1.feed_forward.pwff_layer"


def read(source: Path) -> ForeignModel:
    return joeynmt.read(source, ConvertSettings())


def test_settings_and_weights(tmp_path: Path) -> None:
    tensors = write_joey(tmp_path)
    assert joeynmt.recognises(tmp_path)
    model = read(tmp_path)
    expected = {
        "model.norm": "pre",
        "model.final_norm": "auto",
        "model.layer_norm_epsilon": 1e-6,
        "model.embeddings": "tied",
        "model.scale_embeddings": True,
        "model.attention_bias": True,
        "model.output_bias": False,
        "model.feed_forward_dropout": 0.2,
        "data.source": "en",
        "data.target": "de",
        "search.beam": 1,
        "search.alpha": 0.0,
        "search.max_factor": 1.5,
        "search.max_extra": 1,
    }
    assert expected.items() <= model.settings.items()
    assert "model.position_layout" not in model.settings  # the paper's
    assert set(model.weights) == expected_paths(model)
    matrix = tensors["src_embed.lut.weight"]
    for number, row in ((PAD, 1), (UNKNOWN, 0), (START, 2), (END, 3)):
        assert np.array_equal(model.weights["embedding/matrix"][number], matrix[row])
    for ours, theirs in (
        ("decoder/layers/0/self_attention/query_kernel", "decoder.layers.0.trg_trg_att.q_layer"),
        ("decoder/layers/0/cross_attention/value_kernel", "decoder.layers.0.src_trg_att.v_layer"),
        (
            "encoder/layers/1/feed_forward/outer_kernel",
            "encoder.layers.1.feed_forward.pwff_layer.3",
        ),
    ):
        assert np.array_equal(model.weights[ours], tensors[f"{theirs}.weight"].T)
    gamma = model.weights["decoder/layers/0/cross_attention_connection/normalization/gamma"]
    assert np.array_equal(gamma, tensors["decoder.layers.0.dec_layer_norm.weight"])


@pytest.mark.parametrize(
    ("layer_norm", "final_norms", "norm", "decoder_norm", "final_norm"),
    [
        ("pre", True, "pre", "same", "auto"),
        ("post", False, "post", "same", "auto"),
        (None, True, "pre", "same", "auto"),  # version 1
        (None, False, "pre", "post", "none"),  # version 2
    ],
)
def test_norms(
    layer_norm: str | None,
    final_norms: bool,
    norm: str,
    decoder_norm: str,
    final_norm: str,
    tmp_path: Path,
) -> None:
    write_joey(tmp_path, joey_tensors(final_norms), layer_norm=layer_norm)
    model = read(tmp_path)
    names = ("model.norm", "model.decoder_norm", "model.final_norm")
    assert [model.settings[name] for name in names] == [norm, decoder_norm, final_norm]
    assert set(model.weights) == expected_paths(model)


def test_three_matrices_of_which_one_is_scaled(tmp_path: Path) -> None:
    tensors = write_joey(tmp_path, joey_tensors(tied=False))
    path = tmp_path / "config.yaml"
    text = path.read_text()
    before, decoder, encoder = text.partition("  encoder:")
    path.write_text(before + decoder + encoder.replace("scale: true", "scale: false"))
    model = read(tmp_path)
    assert model.settings["model.embeddings"] == "untied"
    assert model.settings["model.scale_embeddings"] is True
    # 1 / sqrt(8) undoes the scale of the source.
    rows = tensors["src_embed.lut.weight"][4] / np.sqrt(np.float32(D_MODEL))
    np.testing.assert_allclose(model.weights["source_embedding/matrix"][4], rows, rtol=1e-6)
    rows = tensors["trg_embed.lut.weight"][4]
    assert np.array_equal(model.weights["target_embedding/matrix"][4], rows)


def test_data_of_version_1(tmp_path: Path) -> None:
    write_joey(tmp_path, data={"src": "nl", "trg": "fr", "level": "word", "lowercase": True})
    model = read(tmp_path)
    assert (model.settings["data.source"], model.settings["data.target"]) == ("nl", "fr")
    assert any("source text by lowercase" in note for note in model.notes)


def test_search_settings(tmp_path: Path) -> None:
    testing = {
        "beam_size": 5,
        "beam_alpha": 1.2,
        "max_output_length": 30,
        "generate_unk": False,
        "repetition_penalty": 2,
    }
    data = {"special_symbols": {"sep_token": "the", "lang_tags": ["dog"]}}
    write_joey(tmp_path, data=data, testing=testing)
    vocabulary = tmp_path / "src_vocab.txt"
    tokens = vocabulary.read_text().split()
    ordered = [*tokens[:4], "the", "dog", *(token for token in tokens[4:] if token != "dog")]
    for name in ("src", "trg"):
        text = "".join(f"{token}\n" for token in dict.fromkeys(ordered))
        (tmp_path / f"{name}_vocab.txt").write_text(text)
    model = read(tmp_path)
    expected = {
        "search.beam": 5,
        "search.alpha": 1.2,
        "search.max_factor": 0.0,
        "search.max_extra": 30,
        "search.allow_unknown": False,
        "search.suppress": ("the", "dog"),
    }
    assert expected.items() <= model.settings.items()
    assert any("repetition_penalty 2" in note for note in model.notes)


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ({"type": "recurrent"}, "expected transformer, got recurrent"),
        ({"alpha": 0.5}, "alpha 0.5: weighted residual"),
        ({"activation": "tanh"}, "activation: expected one of relu"),
        ({"num_heads": 3}, "expected a divisor of 8, got 3"),
        ({"layer_norm": "middle"}, "expected pre or post"),
        ({"layer_norm": "post"}, None),
    ],
)
def test_refused(sides: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    write_joey(tmp_path, **sides)
    if message is None:  # the file decides on final norms
        assert read(tmp_path).settings["model.final_norm"] == "both"
    else:
        with pytest.raises(ConvertError, match=message):
            read(tmp_path)


def test_refused_files(tmp_path: Path) -> None:
    write_joey(tmp_path)
    (tmp_path / "src_vocab.txt").write_text("<unk>\n<s>\n")
    with pytest.raises(ConvertError, match="expected 11 tokens, as many as src_embed"):
        read(tmp_path)
    (tmp_path / "best.ckpt").rename(tmp_path / "1.ckpt")
    (tmp_path / "2.ckpt").write_bytes((tmp_path / "1.ckpt").read_bytes())
    with pytest.raises(ConvertError, match=r"got 1.ckpt, 2.ckpt; name a file"):
        read(tmp_path)
