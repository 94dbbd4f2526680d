"""fairseq: options, names of its versions, dictionaries, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.fairseq_options import FairseqOptions
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.formats import fairseq
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.vocabulary_rows import LACKING_BIAS
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN
from tests.support import torch_files
from tests.support.foreign_networks import (
    D_MODEL,
    FAIRSEQ_OPTIONS,
    SIZE,
    WORDS,
    fairseq_state,
    fairseq_tensors,
    old_fairseq_names,
    write_dictionaries,
    write_fairseq,
)
from tests.support.reference_network import expected_paths
from tests.support.torch_files import Call, Name, namespace


def read(source: Path, **settings: Any) -> ForeignModel:
    return fairseq.read(source, ConvertSettings(**settings))


def same(first: ForeignModel, second: ForeignModel) -> bool:
    return first.weights.keys() == second.weights.keys() and all(
        np.array_equal(value, second.weights[name]) for name, value in first.weights.items()
    )


def test_settings_and_weights_by_path(tmp_path: Path) -> None:
    tensors = write_fairseq(tmp_path)
    assert fairseq.recognises(tmp_path)
    assert fairseq.recognises(tmp_path / "model.pt")
    model = read(tmp_path)
    expected = {
        "model.encoder_layers": 2,
        "model.decoder_layers": 1,
        "model.heads": 2,
        "model.decoder_heads": 4,
        "model.d_ff": 12,
        "model.decoder_d_ff": 0,
        "model.norm": "post",
        "model.final_norm": "auto",
        "model.layer_norm_epsilon": 1e-5,
        "model.position_layout": "halves",
        "model.position_rates": "tensor2tensor",
        "model.first_position": 2,
        "model.attention_bias": True,
        "model.embeddings": "tied",
        "model.dropout": 0.25,
        "data.source": "en",
        "data.target": "de",
        "data.algorithm": "words",
        "search.beam": 5,
        "search.length_penalty": "power",
        "search.allow_unknown": True,
    }
    assert expected.items() <= model.settings.items()
    assert set(model.weights) == expected_paths(model)
    for ours, theirs in (
        ("encoder/layers/1/self_attention/value", "encoder.layers.1.self_attn.v_proj"),
        ("decoder/layers/0/cross_attention/output", "decoder.layers.0.encoder_attn.out_proj"),
        ("decoder/layers/0/feed_forward/outer", "decoder.layers.0.fc2"),
    ):
        assert np.array_equal(model.weights[f"{ours}_kernel"], tensors[f"{theirs}.weight"].T)
        assert np.array_equal(model.weights[f"{ours}_bias"], tensors[f"{theirs}.bias"])
    norm = model.weights["decoder/layers/0/feed_forward_connection/normalization/beta"]
    assert np.array_equal(norm, tensors["decoder.layers.0.final_layer_norm.bias"])


def test_the_decoder_starts_with_the_end_token(tmp_path: Path) -> None:
    matrix = write_fairseq(tmp_path)["decoder.embed_tokens.weight"]
    model = read(tmp_path)
    ours = model.weights["embedding/matrix"]
    for number, row in ((PAD, 1), (UNKNOWN, 3), (START, 2), (END, 2)):
        assert np.array_equal(ours[number], matrix[row])
    # fairseq's <s> starts nothing, but takes part in its softmax.
    pieces = model.tokenizer.target.pieces(range(model.tokenizer.target.size))
    assert np.array_equal(ours[pieces.index("<s>'")], matrix[0])
    bias = model.weights["embedding/output_bias"]
    assert bias[START] == LACKING_BIAS
    assert np.delete(bias, START).tolist() == [0] * SIZE


def test_text_is_tokens_in_and_tokens_out(tmp_path: Path) -> None:
    write_fairseq(tmp_path)
    model = read(tmp_path)
    (ids,) = model.tokenizer.source.encode(["the sm@@ all dog zebra"])
    assert model.tokenizer.source.pieces(ids) == ["the", "sm@@", "all", "dog", "<unk>"]
    assert model.tokenizer.target.decode([ids[:4]]) == ["the small dog"]
    assert "BPE tokens" in model.notes[0]


def test_names_of_the_first_versions(tmp_path: Path) -> None:
    write_fairseq(tmp_path)
    new = read(tmp_path)
    state = torch_files.state(old_fairseq_names(fairseq_tensors()))
    state["encoder.embed_tokens.weight"] = state["decoder.embed_tokens.weight"]
    value = {"args": namespace(**FAIRSEQ_OPTIONS), "model": state}
    torch_files.save_old(value, tmp_path / "model.pt")
    assert same(read(tmp_path), new)


@pytest.mark.parametrize(
    ("version", "options", "final_norm"),
    [(3, {}, "auto"), (3, {"no_decoder_final_norm": True}, "encoder"), (2, {}, "encoder")],
)
def test_final_norms(
    version: float, options: dict[str, Any], final_norm: str, tmp_path: Path
) -> None:
    tensors = fairseq_tensors(final_norm=True)
    if final_norm == "encoder":
        tensors = {name: t for name, t in tensors.items() if not name.startswith("decoder.layer_n")}
    pre = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    write_fairseq(tmp_path, tensors, version, **pre, **options)
    model = read(tmp_path)
    assert (model.settings["model.norm"], model.settings["model.final_norm"]) == ("pre", final_norm)
    assert set(model.weights) == expected_paths(model)


def test_without_version_there_is_no_final_norm(tmp_path: Path) -> None:
    pre = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    write_fairseq(tmp_path, version=1, **pre)
    assert read(tmp_path).settings["model.final_norm"] == "none"


def test_learned_positions_and_norm_of_embeddings(tmp_path: Path) -> None:
    more = {f"{side}.embed_positions.weight": (9, D_MODEL) for side in ("encoder", "decoder")}
    for side in ("encoder", "decoder"):
        more |= {f"{side}.layernorm_embedding.{kind}": (D_MODEL,) for kind in ("weight", "bias")}
    options = {"encoder_learned_pos": True, "decoder_learned_pos": True}
    tensors = write_fairseq(tmp_path, fairseq_tensors(**more), layernorm_embedding=True, **options)
    model = read(tmp_path)
    table = tensors["decoder.embed_positions.weight"][2:]
    assert np.array_equal(model.weights["target_positions/table"], table)
    assert model.settings["model.positions"] == "learned"
    assert (model.settings["model.max_positions"], model.settings["data.max_tokens"]) == (7, 7)
    assert set(model.weights) == expected_paths(model)


def test_three_matrices(tmp_path: Path) -> None:
    names = ("encoder.embed_tokens.weight", "decoder.output_projection.weight")
    tensors = fairseq_tensors(**dict.fromkeys(names, (SIZE, D_MODEL)))
    write_fairseq(tmp_path, tensors, share_all_embeddings=False)
    model = read(tmp_path)
    assert model.settings["model.embeddings"] == "untied"
    assert np.array_equal(model.weights["projection/matrix"][4], tensors[names[1]][0])
    write_fairseq(tmp_path, tensors, share_all_embeddings=True)
    with pytest.raises(ConvertError, match="expected the same matrix"):
        read(tmp_path)


def node(value: Any) -> Call:
    """Return a value as omegaconf keeps it."""
    return Call(Name("omegaconf.nodes", "AnyNode"), state={"_val": value, "_parent": None})


def dictionary(values: dict[str, Any]) -> Call:
    """Return a dictionary as omegaconf keeps it."""
    name = Name("omegaconf.dictconfig", "DictConfig")
    return Call(name, state={"_content": values, "_metadata": Name("typing", "Any")})


def nested_options() -> dict[str, Any]:
    """Return the options in sections, as the newest versions have them."""
    sections: dict[str, Any] = {"encoder": {}, "decoder": {}}
    for name, value in FAIRSEQ_OPTIONS.items():
        side, _, rest = name.partition("_")
        if side in sections:
            sections[side][rest] = value
        elif name not in ("task", "source_lang", "target_lang", "arch"):
            sections[name] = value
    return {"_name": "transformer", **sections}


def test_options_of_later_versions(tmp_path: Path) -> None:
    write_fairseq(tmp_path)
    first = read(tmp_path)
    task = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
    content = {name: node(value) for name, value in FAIRSEQ_OPTIONS.items()}
    for cfg in (
        {"model": namespace(**FAIRSEQ_OPTIONS), "task": task},
        {"model": nested_options(), "task": task},
        dictionary({"model": dictionary(content), "task": dictionary(task)}),
    ):
        value = {"args": None, "cfg": cfg, "model": fairseq_state(fairseq_tensors())}
        torch_files.save(value, tmp_path / "model.pt")
        model = read(tmp_path)
        assert same(model, first)
        assert model.settings == first.settings


def options(**values: Any) -> FairseqOptions:
    checkpoint = {"args": {"arch": "transformer", **values}}
    return FairseqOptions(checkpoint, "model.pt")


def test_defaults_of_architectures() -> None:
    small = options(arch="transformer_iwslt_de_en")
    assert (small("encoder_attention_heads"), small("decoder_ffn_embed_dim")) == (4, 1024)
    assert small("encoder_embed_dim") == 512
    big = options(arch="transformer_wmt_en_de_big_t2t", encoder_layers=3)
    assert (big("decoder_attention_heads"), big("encoder_layers")) == (16, 3)
    assert big("encoder_normalize_before") is True
    assert options()("decoder_layers") == 6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"arch": "fconv_wmt_en_de"}, "expected an arch transformer..., got fconv_wmt_en_de"),
        ({"arch": "transformer_lm_big"}, "got transformer_lm_big"),
        ({"arch": "transformer_of_mine"}, "or the option encoder_embed_dim"),
        ({"adaptive_softmax_cutoff": "10,20"}, "adaptive_softmax_cutoff '10,20'"),
        ({"cross_self_attention": True}, "cross_self_attention True"),
        ({"scale_heads": True}, "scale_heads True"),
        ({"encoder_layers_to_keep": "0,2"}, "encoder_layers_to_keep"),
        ({"decoder_langtok": True}, "decoder_langtok"),
    ],
)
def test_refused_options(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConvertError, match=message):
        options(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation_fn": "tanh"}, "activation_fn: expected one of relu, .*, got 'tanh'"),
        ({"decoder_embed_dim": 16}, "decoder_embed_dim: expected 8, the encoder's width, got 16"),
        ({"encoder_learned_pos": True}, "on both sides or on none"),
        ({"encoder_layers": 1}, r"found also encoder.layers.1.self_attn.q_proj.weight"),
        ({"encoder_layers": 3}, "expected the tensor encoder.layers.2.self_attn.q_proj.weight"),
        ({"encoder_layers": "2"}, "encoder_layers: expected a whole number from 1, got '2'"),
        ({"source_lang": "fr"}, r"expected the source dictionary dict.fr.txt.*--source_vocabulary"),
    ],
)
def test_refused_models(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_fairseq(tmp_path, **values)
    with pytest.raises(ConvertError, match=message):
        read(tmp_path)


def test_an_ensemble_is_refused(tmp_path: Path) -> None:
    write_fairseq(tmp_path)
    (tmp_path / "model.pt").rename(tmp_path / "model1.pt")
    write_fairseq(tmp_path)
    (tmp_path / "model.pt").rename(tmp_path / "model2.pt")
    assert fairseq.recognises(tmp_path)
    with pytest.raises(ConvertError, match=r"got model1.pt, model2.pt: an ensemble"):
        read(tmp_path)
    assert read(tmp_path / "model2.pt").settings["model.d_model"] == D_MODEL


def test_dictionaries(tmp_path: Path) -> None:
    path = tmp_path / "dict.en.txt"
    path.write_text("a 3\nb c 2\n<unk> 1 #fairseq:overwrite\n\n")
    tokens = fairseq.read_dictionary(path).tokens
    assert list(tokens) == ["<s>", "<pad>", "</s>", "<unk>", "a", "b c", "<unk>"]
    for text, message in (("a 3\na 2\n", "line 2: expected each token once"), ("a\n", "line 1")):
        path.write_text(text)
        with pytest.raises(ConvertError, match=message):
            fairseq.read_dictionary(path)


def test_a_dictionary_of_another_model(tmp_path: Path) -> None:
    write_fairseq(tmp_path)
    other = tmp_path / "other.txt"
    other.write_text("a 1\n")
    with pytest.raises(ConvertError, match=f"expected {SIZE} tokens, .* got 5"):
        read(tmp_path, source_vocabulary=str(other))


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    write_dictionaries(tmp_path)
    value = {"args": Call(Name("os", "system"), "touch ran"), "model": {}}
    torch_files.save(value, tmp_path / "model.pt")
    with pytest.raises(ConvertError, match="refers to os.system"):
        read(tmp_path)
    torch_files.save({"args": {"arch": "transformer"}}, tmp_path / "model.pt")
    with pytest.raises(ConvertError, match="fairseq with model"):
        read(tmp_path)
    torch_files.save({"model": {}}, tmp_path / "model.pt")
    with pytest.raises(ConvertError, match="with args or cfg"):
        read(tmp_path)


def test_all_words_have_their_rows(tmp_path: Path) -> None:
    matrix = write_fairseq(tmp_path)["decoder.embed_tokens.weight"]
    model = read(tmp_path)
    for row, word in enumerate(WORDS, 4):
        ((number,),) = model.tokenizer.source.encode([word])
        assert np.array_equal(model.weights["embedding/matrix"][number], matrix[row])
