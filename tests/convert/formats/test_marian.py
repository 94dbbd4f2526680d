"""Marian archives and folders of OPUS-MT: settings, weights by path, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.formats import marian
from keras_transformer.convert.marian_network import MarianNetwork
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.vocabulary_rows import LACKING_BIAS
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN
from tests.support.foreign_models import (
    D_FF,
    D_MODEL,
    TAG,
    TEXT,
    marian_options,
    random_tensors,
    vocabulary,
    write_marian,
    write_opus_folder,
)


def read(source: Path, **settings: Any) -> ForeignModel:
    return marian.read(source, ConvertSettings(**settings))


def token_ids(model: ForeignModel) -> dict[str, int]:
    """Return our ids by the token of the source, in which tags have no space before them."""
    size = model.tokenizer.target.size
    pieces = model.tokenizer.target.pieces(range(size))
    return {piece.replace(f"▁{TAG}", TAG): number for number, piece in enumerate(pieces)}


def test_weights_by_path(tmp_path: Path) -> None:
    tensors = write_opus_folder(tmp_path / "opus-mt-en-de")
    model = read(tmp_path / "opus-mt-en-de")
    weights, ids = model.weights, token_ids(model)

    for token, row in (("▁", vocabulary().index("▁")), ("</s>", 0), (TAG, len(vocabulary()) - 1)):
        np.testing.assert_array_equal(weights["embedding/matrix"][ids[token]], tensors["Wemb"][row])
        bias = tensors["decoder_ff_logit_out_b"][0, row]
        assert weights["embedding/output_bias"][ids[token]] == bias
    for ours, theirs in (
        ("encoder/layers/1/self_attention/value_kernel", "encoder_l2_self_Wv"),
        ("decoder/layers/0/cross_attention/output_kernel", "decoder_l1_context_Wo"),
        ("decoder/layers/0/feed_forward/outer_kernel", "decoder_l1_ffn_W2"),
    ):
        np.testing.assert_array_equal(weights[ours], tensors[theirs])
    for ours, theirs in (
        ("encoder/layers/0/self_attention/query_bias", "encoder_l1_self_bq"),
        (
            "decoder/layers/0/cross_attention_connection/normalization/gamma",
            "decoder_l1_context_Wo_ln_scale",
        ),
        (
            "decoder/layers/0/feed_forward_connection/normalization/beta",
            "decoder_l1_ffn_ffn_ln_bias",
        ),
    ):
        np.testing.assert_array_equal(weights[ours], tensors[theirs][0])
    assert sum(weight.size for weight in weights.values()) == sum(
        tensor.size for tensor in tensors.values()
    ) + 2 * (D_MODEL + 1)  # the rows of padding and start


def test_tokens_that_marian_lacks(tmp_path: Path) -> None:
    write_opus_folder(tmp_path)
    weights = read(tmp_path).weights
    for token in (PAD, START):
        assert not weights["embedding/matrix"][token].any()
        assert weights["embedding/output_bias"][token] == LACKING_BIAS
    for token in (UNKNOWN, END):
        assert weights["embedding/matrix"][token].any()


def test_settings(tmp_path: Path) -> None:
    write_opus_folder(tmp_path / "opus-mt-eng-deu")
    settings = read(tmp_path / "opus-mt-eng-deu").settings
    expected = {
        "model.encoder_layers": 2,
        "model.decoder_layers": 1,
        "model.d_ff": D_FF,
        "model.decoder_d_ff": 0,
        "model.activation": "silu",
        "model.norm": "post",
        "model.final_norm": "none",
        "model.embeddings": "tied",
        "model.position_layout": "halves",
        "model.position_rates": "tensor2tensor",
        "model.layer_norm_epsilon": 1e-6,
        "search.beam": 6,
        "search.alpha": 1.0,
        "search.allow_unknown": False,
        "data.source": "eng",
        "data.target": "deu",
    }
    assert expected.items() <= settings.items()


def test_notes(tmp_path: Path) -> None:
    write_opus_folder(tmp_path, pre=True)
    notes = "\n".join(read(tmp_path).notes)
    assert f"begin each source text with one and a space: {TAG}" in notes
    assert "the run does not apply preprocess.sh" in notes
    assert "pre-norm: marian-decoder does not normalize keys" in notes


def test_punctuation_of_the_release_is_an_option(tmp_path: Path) -> None:
    write_opus_folder(tmp_path)
    before, after = read(tmp_path), read(tmp_path, preprocess="opus")

    assert not any("preprocess.sh" in note for note in after.notes)
    line = "a small\u200ddog"  # the joiner is a space in the script, and unknown otherwise
    plain = before.tokenizer.source.encode(["a small dog"])
    assert before.tokenizer.source.encode([line]) != plain
    assert after.tokenizer.source.encode([line]) == plain
    assert after.weights.keys() == before.weights.keys()


def test_punctuation_needs_sentencepiece(tmp_path: Path) -> None:
    write_opus_folder(tmp_path)
    for file in tmp_path.glob("*.spm"):
        file.unlink()
    with pytest.raises(ConvertError, match="--preprocess opus: expected a SentencePiece model"):
        read(tmp_path, preprocess="opus")


def test_pre_norm_with_final_norms(tmp_path: Path) -> None:
    tensors = write_opus_folder(tmp_path, pre=True)
    model = read(tmp_path)
    assert model.settings["model.norm"] == "pre"
    assert model.settings["model.final_norm"] == "both"
    np.testing.assert_array_equal(
        model.weights["decoder/final_norm/beta"], tensors["decoder_top_ln_bias"][0]
    )
    np.testing.assert_array_equal(
        model.weights["encoder/layers/0/feed_forward_connection/normalization/gamma"],
        tensors["encoder_l1_ffn_ffn_ln_scale_pre"][0],
    )


def test_other_embeddings(tmp_path: Path) -> None:
    size = len(vocabulary())
    tied = write_opus_folder(tmp_path)
    matrix, embedding = tied.pop("Wemb"), {"source": "encoder_Wemb", "target": "decoder_Wemb"}
    tied |= {name: matrix + row for row, name in enumerate(embedding.values())}
    options = marian_options(size) | {"tied-embeddings-all": False, "tied-embeddings": True}
    write_marian(tmp_path / "model.npz", tied, options)
    model = read(tmp_path)
    assert model.settings["model.embeddings"] == "decoder"
    end = 0
    for side, name in embedding.items():
        rows = model.weights[f"{side}_embedding/matrix"]
        np.testing.assert_array_equal(rows[END], tied[name][end])
    assert model.weights["target_embedding/output_bias"].shape == (size + 2,)

    options["tied-embeddings"] = False
    for name, projection in (("Wt", 3 * matrix), ("W", 3 * matrix.T)):
        untied = tied | {f"decoder_ff_logit_out_{name}": projection}
        write_marian(tmp_path / "model.npz", untied, options)
        model = read(tmp_path)
        assert model.settings["model.embeddings"] == "untied"
        rows = model.weights["projection/matrix"]
        np.testing.assert_array_equal(rows[END], 3 * matrix[end])
        assert not rows[START].any()


def test_trained_positions_and_norm_of_embeddings(tmp_path: Path) -> None:
    size = len(vocabulary())
    tensors = write_opus_folder(tmp_path)
    norms = {
        f"{side}_emb_ln_{part}_pre": (1, D_MODEL)
        for side in ("encoder", "decoder")
        for part in ("scale", "bias")
    }
    tensors |= random_tensors({"Wpos": (40, D_MODEL), **norms}, seed=2)
    options = {"transformer-train-position-embeddings": True, "transformer-postprocess-emb": "nd"}
    write_marian(tmp_path / "model.npz", tensors, marian_options(size) | options)
    model = read(tmp_path)
    expected = {
        "model.positions": "learned",
        "model.max_positions": 40,
        "model.scale_embeddings": False,
        "model.embedding_norm": True,
        "data.max_tokens": 40,
    }
    assert expected.items() <= model.settings.items()
    assert "model.position_rates" not in model.settings
    for side, theirs in (("source", "encoder"), ("target", "decoder")):
        np.testing.assert_array_equal(model.weights[f"{side}_positions/table"], tensors["Wpos"])
        np.testing.assert_array_equal(
            model.weights[f"{side}_positions/normalization/gamma"],
            tensors[f"{theirs}_emb_ln_scale_pre"][0],
        )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("type", "s2s", "type: expected 'transformer', got 's2s'"),
        ("transformer-decoder-autoreg", "rnn", "got 'rnn': the decoder SSRU cannot"),
        ("transformer-decoder-autoreg", "average-attention", "average attention cannot"),
        ("transformer-tied-layers", [1, 1], "layers that share weights"),
        ("transformer-no-projection", True, "transformer-no-projection: expected False"),
        ("transformer-ffn-depth", 3, "transformer-ffn-depth: expected 2, got 3"),
        ("transformer-ffn-activation", "tanh", "expected 'swish' or 'relu' or 'gelu'"),
        ("transformer-postprocess", "dhn", "got '' and 'hn' without dropout"),
        ("transformer-postprocess-top", "h", "transformer-postprocess-top"),
        ("lemma-dim-emb", 8, "factored vocabularies cannot"),
        ("dim-vocabs", [9, 9, 9], "several encoders"),
        ("dim-vocabs", "9", "dim-vocabs: expected two numbers"),
        ("dim-emb", None, "dim-emb: expected a number above 0, got None"),
        ("dec-depth", True, "dec-depth: expected a number above 0, got True"),
        ("input-types", ["sequence", "class"], "inputs other than two sequences"),
    ],
)
def test_networks_that_cannot_be_converted_are_refused(
    option: str, value: object, message: str
) -> None:
    with pytest.raises(ConvertError, match=f"model.npz: .*{message}"):
        MarianNetwork(marian_options(9) | {option: value}, "model.npz").settings()


def test_feed_forward_networks_of_two_widths() -> None:
    options = marian_options(9) | {"transformer-decoder-dim-ffn": 48}
    assert MarianNetwork(options, "m").settings()["model.decoder_d_ff"] == 48


def test_tensors_must_fit_the_description(tmp_path: Path) -> None:
    size = len(vocabulary())
    tensors = write_opus_folder(tmp_path)
    extra = {"decoder_l1_rnn_W": np.ones((2, 2), np.float32)}
    write_marian(tmp_path / "model.npz", tensors | extra, marian_options(size))
    with pytest.raises(ConvertError, match="found also decoder_l1_rnn_W"):
        read(tmp_path)
    del tensors["encoder_l2_self_Wk"]
    write_marian(tmp_path / "model.npz", tensors, marian_options(size))
    with pytest.raises(ConvertError, match="expected the tensor encoder_l2_self_Wk, found none"):
        read(tmp_path)


def test_the_vocabulary_must_fit(tmp_path: Path) -> None:
    write_opus_folder(tmp_path)
    tokens = vocabulary()[:-1]
    lines = [f"{json.dumps(token)}: {number}\n" for number, token in enumerate(tokens)]
    (tmp_path / "opus.vocab.yml").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(ConvertError, match="as many as dim-vocabs says"):
        read(tmp_path)
    renamed = [json.dumps(token.replace("</s>", "eos")) for token in vocabulary()]
    text = "".join(f"{token}: {number}\n" for number, token in enumerate(renamed))
    (tmp_path / "opus.vocab.yml").write_text(text, encoding="utf-8")
    with pytest.raises(ConvertError, match="expected the tokens </s> and <unk>, found no </s>"):
        read(tmp_path)


def test_files_are_chosen(tmp_path: Path) -> None:
    write_opus_folder(tmp_path)
    archive = (tmp_path / "model.npz").read_bytes()
    (tmp_path / "other.npz").write_bytes(archive)
    assert read(tmp_path).settings["search.beam"] == 6  # decoder.yml names the model
    decoder = {"models": ["model.npz", "other.npz"], "vocabs": ["opus.vocab.yml"] * 2}
    (tmp_path / "decoder.yml").write_text(yaml.safe_dump(decoder), encoding="utf-8")
    with pytest.raises(ConvertError, match=r"found model.npz, other.npz .an ensemble"):
        read(tmp_path)
    (tmp_path / "decoder.yml").unlink()
    model = read(tmp_path / "other.npz")  # *vocab.yml is found
    assert "there is no decoder.yml" in "\n".join(model.notes)
    (tmp_path / "opus.vocab.yml").rename(tmp_path / "v.yaml")
    with pytest.raises(ConvertError, match="add --source_vocabulary FILE"):
        read(tmp_path / "other.npz")
    read(tmp_path / "other.npz", source_vocabulary=str(tmp_path / "v.yaml"))
    (tmp_path / "target.spm").unlink()
    with pytest.raises(ConvertError, match="target.spm: expected a SentencePiece model beside"):
        read(tmp_path / "other.npz", source_vocabulary=str(tmp_path / "v.yaml"))


def test_without_sentencepiece_tokens_come_in_and_go_out(tmp_path: Path) -> None:
    write_opus_folder(tmp_path)
    for side in TEXT:
        (tmp_path / f"{side}.spm").unlink()
    model = read(tmp_path)
    assert "tokens in, tokens out" in "\n".join(model.notes)
    assert model.settings["data.algorithm"] == "words"
    token = vocabulary()[5]
    (ids,) = model.tokenizer.source.encode([f"{token} {TAG} none"])
    assert ids[2] == UNKNOWN
    assert model.tokenizer.source.pieces(ids[:2]) == [token, TAG]
