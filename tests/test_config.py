"""The configuration: presets, dictionaries, and refused values."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from keras_transformer import config, presets
from keras_transformer.config import Config, ConfigError, ModelConfig
from keras_transformer.errors import UserError
from keras_transformer.field_types import field_types


def test_defaults_are_the_base_model_of_the_paper() -> None:
    """Table 3, first row, and sections 5.3 and 5.4."""
    model, train = Config().model, Config().train

    assert (model.encoder_layers, model.decoder_layers) == (6, 6)
    assert (model.d_model, model.d_ff, model.heads) == (512, 2048, 8)
    assert (model.key_width, model.value_width) == (64, 64)
    assert (model.dropout, train.label_smoothing, train.warmup_steps) == (0.1, 0.1, 4000)
    assert (train.adam_beta_1, train.adam_beta_2, train.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (model.norm, model.positions, model.embeddings) == ("post", "sinusoidal", "tied")
    assert (Config().search.beam, Config().search.alpha, Config().search.max_extra) == (4, 0.6, 50)


@pytest.mark.parametrize(
    ("name", "layers", "d_model", "heads", "d_ff"),
    [
        ("tiny", 4, 128, 4, 256),
        ("small", 3, 256, 4, 1024),
        ("base", 6, 512, 8, 2048),
        ("big", 6, 1024, 16, 4096),
    ],
)
def test_presets_have_their_sizes(
    name: str, layers: int, d_model: int, heads: int, d_ff: int
) -> None:
    model = presets.preset(name).model

    assert (model.encoder_layers, model.decoder_layers) == (layers, layers)
    assert (model.d_model, model.heads, model.d_ff) == (d_model, heads, d_ff)


def test_unknown_preset_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="preset: expected one of demo, tiny.*got 'huge'"):
        presets.preset("huge")


@pytest.mark.parametrize("name", presets.PRESETS)
def test_dictionary_and_back_is_the_same(name: str) -> None:
    chosen = presets.preset(name)

    assert config.from_dict(config.to_dict(chosen)) == chosen


def test_missing_fields_come_from_the_base() -> None:
    base = presets.preset("tiny")

    changed = config.from_dict({"model": {"d_ff": 512}}, base)

    assert changed.model == dataclasses.replace(base.model, d_ff=512)
    assert (changed.data, changed.train, changed.search) == (base.data, base.train, base.search)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modle": {}}, "modle: expected one of model, data, train, search"),
        ({"model": {"width": 3}}, r"model\.width: expected one of .*d_model"),
        ({"model": 3}, "model: expected fields and values, got 3"),
        ({"model": {"d_model": 0}}, r"model\.d_model: expected 1 to 65536, got 0$"),
        ({"model": {"dropout": 1.0}}, r"model\.dropout: expected 0 to 0\.9999999, got 1\.0"),
        ({"model": {"dropout": -0.1}}, r"model\.dropout: "),
        ({"model": {"norm": "both"}}, r"model\.norm: expected one of post, pre, got 'both'"),
        (
            {"model": {"ablation": "unscaled_attention", "positions": "alibi"}},
            r"model\.positions: expected sinusoidal, learned or none with .*unscaled_.*'alibi'",
        ),
        (
            {"model": {"ablation": "no_residual", "norm": "pre"}},
            r"model\.norm: expected post with model\.ablation no_residual, got 'pre'",
        ),
        ({"model": {"positions": "x"}}, r"model\.positions: expected one of sinusoidal, learned"),
        ({"model": {"attention": "x"}}, r"model\.attention: expected one of plain, blockwise, got"),
        ({"model": {"heads": 7}}, r"model\.d_model: expected a multiple of model\.heads \(7\)"),
        (
            {"model": {"d_model": 12, "heads": 4, "positions": "rotary"}},
            r"model\.d_key: expected an even width for rotary positions, got 3",
        ),
        (
            {"model": {"decoder_heads": 7}},
            r"model\.d_model: expected a multiple of model\.decoder_heads \(7\), or .*, got 512",
        ),
        (
            {"model": {"d_model": 12, "heads": 2, "decoder_heads": 4, "positions": "rotary"}},
            r"model\.d_key: expected an even width for rotary positions, got 3",
        ),
        ({"model": {"activation": "swish"}}, r"model\.activation: expected one of relu, gelu, .*"),
        (
            {"model": {"layer_norm_epsilon": 0}},
            r"model\.layer_norm_epsilon: expected 1e-12 to 0\.1",
        ),
        (
            {"model": {"positions": "rotary", "first_position": 1}},
            r"model\.first_position: expected 0, its default, for model\.positions rotary",
        ),
        (
            {"model": {"positions": "learned", "position_layout": "halves"}},
            r"model\.position_layout: expected 'interleaved', its default, .* got 'halves'",
        ),
        (
            {"model": {"d_model": 9, "heads": 3, "position_layout": "halves"}},
            r"model\.d_model: expected an even width of 4 or more for model\.position_layout",
        ),
        (
            {"model": {"d_model": 2, "heads": 1, "position_rates": "tensor2tensor"}},
            r"model\.d_model: expected an even width of 4 or more .*tensor2tensor, got 2",
        ),
        (
            {"model": {"ablation": "no_normalization", "decoder_norm": "pre"}},
            r"model\.decoder_norm: expected same or post with .*no_normalization, got 'pre'",
        ),
        (
            {"model": {"ablation": "batch_normalization", "final_norm": "both"}},
            r"model\.final_norm: expected auto with model\.ablation batch_normalization",
        ),
        (
            {"model": {"architecture": "recurrent", "attention_bias": True}},
            r"model\.attention_bias: expected False, its default, for .*recurrent.*, got True",
        ),
        ({"model": {"source_vocabulary_size": 5}}, r"model\.embeddings: .*\(5 and 0\), got 'tied'"),
        (
            {"model": {"positions": "learned", "max_positions": 255}},
            r"model\.max_positions: expected at least data\.max_tokens \(256\).*, got 255",
        ),
        (
            {"data": {"vocabulary_size": 299}},
            r"data\.vocabulary_size: expected 300 to 1000000, got 299",
        ),
        ({"data": {"source": ""}}, r"data\.source: expected a non-empty text, got ''"),
        ({"data": {"max_ratio": 1.0}}, r"data\.max_ratio: expected 0 \(keep all\) or a number"),
        ({"data": {"on_long": "drop"}}, r"data\.on_long: expected one of cut, refuse"),
        ({"train": {"max_steps": 0}}, r"train\.max_steps: expected 1 to 1000000000, got 0"),
        ({"train": {"label_smoothing": 1.0}}, r"train\.label_smoothing: expected 0 to 0\.9999999"),
        (
            {"train": {"precision": "float64"}},
            r"train\.precision: expected one of float32, bfloat16, float16, auto",
        ),
        ({"search": {"alpha": -1.0}}, r"search\.alpha: expected 0 to 10, got -1\.0"),
        ({"search": {"min_length": -1}}, r"search\.min_length: expected 0 to 100000, got -1"),
        ({"search": {"no_repeat_ngram": -1}}, r"search\.no_repeat_ngram: expected 0 to 100000"),
        (
            {"search": {"temperature": 0.0}},
            r"search\.temperature: expected 1e-06 to 1000000, got",
        ),
        (
            {"search": {"temperature": math.inf}},
            r"search\.temperature: expected 1e-06 to 1000000, got inf",
        ),
        ({"search": {"top_p": 1.1}}, r"search\.top_p: expected 1e-09 to 1, got 1\.1"),
        ({"search": {"top_k": 5}}, r"search\.top_k: expected 0 where search\.sample is false"),
        ({"search": {"top_p": 0.5}}, r"search\.top_p: expected 1\.0 where search\.sample is false"),
        ({"search": {"n_best": 5}}, r"search\.n_best: expected at most search\.beam \(4\), got 5"),
    ],
)
def test_a_bad_value_names_field_expected_and_received(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config.from_dict(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"search": {"alpha": "0.6"}}, r"search\.alpha: expected a number, got '0\.6'"),
        ({"search": {"sample": "false"}}, r"search\.sample: expected true or false, got 'false'"),
        ({"search": {"beam": True}}, r"search\.beam: expected a whole number, got True"),
        ({"search": {"beam": 4.0}}, r"search\.beam: expected a whole number, got 4\.0"),
        ({"train": {"seed": None}}, r"train\.seed: expected a whole number, got None"),
        ({"data": {"source": ["en"]}}, r"data\.source: expected a text, got \['en'\]"),
        ({"data": {"train": "a\0b"}}, r"data\.train: expected a text, got 'a\\x00b'"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.from_dict(values)


NUMBERS = [
    (section, item.name, kind)
    for section, config_class in config.SECTIONS.items()
    for item in dataclasses.fields(config_class)
    if (kind := field_types(config_class)[item.name]) in (int, float)
]


@pytest.mark.parametrize(("section", "name", "kind"), NUMBERS)
def test_every_number_is_finite_and_has_an_upper_limit(section: str, name: str, kind: type) -> None:
    """int32 holds 2^31 - 1, float32 holds numbers up to 3.4e38."""
    too_large = [2**31, 10**5000] if kind is int else [1e39, math.inf, math.nan]
    for value in (*too_large, -1):
        with pytest.raises(ConfigError, match=rf"^{section}\.{name}: expected .*, got"):
            config.from_dict({section: {name: value}})


def test_numbers_of_numpy_become_plain_numbers() -> None:
    """YAML and JSON can write nothing else."""
    values = {"beam": np.int64(5), "alpha": np.float32(0.5)}
    search = config.from_dict({"search": values}).search
    assert (type(search.beam), type(search.alpha)) == (int, float)
    assert (search.beam, search.alpha) == (5, 0.5)


def test_samples_are_not_limited_by_the_beam() -> None:
    values = {"sample": True, "n_best": 9, "temperature": 0.7, "top_k": 10, "top_p": 0.9}
    assert config.from_dict({"search": values}).search.n_best == 9


def test_head_widths_may_differ_from_model_width_over_heads() -> None:
    """Table 3, rows B: d_k 16 or 32 with 8 heads of a model 512 wide."""
    model = ModelConfig(d_key=16)

    assert (model.key_width, model.value_width) == (16, 64)
    assert ModelConfig(d_model=100, heads=8, d_key=16, d_value=16).key_width == 16


def test_each_side_has_its_own_heads_widths_and_norms() -> None:
    model = config.ModelConfig(
        decoder_heads=4, decoder_d_ff=100, decoder_norm="pre", final_norm="encoder"
    )
    encoder, decoder = model.side("encoder"), model.side("decoder")
    assert (encoder.heads, encoder.key_width, encoder.d_ff) == (8, 64, 2048)
    assert (decoder.heads, decoder.key_width, decoder.d_ff) == (4, 128, 100)
    assert (encoder.norm, encoder.final_norm) == ("post", "both")
    assert (decoder.norm, decoder.final_norm) == ("pre", "none")
    assert encoder.side("encoder") == encoder
    assert decoder.side("decoder") == decoder
    assert config.ModelConfig().side("decoder") == config.ModelConfig()


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().model.heads = 3  # type: ignore[misc]


def test_errors_are_for_users() -> None:
    assert issubclass(ConfigError, UserError)
    assert issubclass(UserError, ValueError)
