"""Runs that MarianMT cannot compute are refused by the name of the option."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from keras_transformer.config import Config
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.word_tokenizer import Words
from keras_transformer.serving.marian_hf.representable import check, sentencepiece_sides
from keras_transformer.serving.settings import ExportError


def config(data: dict[str, Any] | None = None, **model: Any) -> Config:
    default = Config()
    return dataclasses.replace(
        default,
        model=dataclasses.replace(default.model, **model),
        data=dataclasses.replace(default.data, **(data or {})),
    )


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"positions": "learned"},
        {"positions": "none", "embeddings": "decoder"},
        {"d_key": 64, "d_value": 64, "decoder_heads": 8},
        {"decoder_norm": "post", "final_norm": "auto"},
        {"attention": "blockwise", "embeddings": "untied", "final_norm": "none"},
    ],
)
def test_what_marian_mt_computes(model: dict[str, Any]) -> None:
    check(config(**model))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"norm": "pre"}, r"model.norm: expected post for --format marian-hf .*, the run has pre"),
        ({"decoder_norm": "pre"}, r"model.decoder_norm: expected post .*, the run has pre"),
        (
            {"norm": "pre", "decoder_norm": "post"},
            r"model.norm: expected post for --format marian-hf",
        ),
        ({"final_norm": "both"}, r"model.final_norm: expected auto or none .* the run has both"),
        ({"final_norm": "decoder"}, r"model.final_norm: .* the run has decoder"),
        ({"embedding_norm": True}, r"model.embedding_norm: expected false .* the run has true"),
        (
            {"positions": "rotary"},
            r"model.positions: expected sinusoidal, learned or none .* the run has rotary",
        ),
        ({"positions": "alibi"}, "the run has alibi"),
        ({"d_key": 32, "d_value": 64}, r"model.d_key: expected 64 .*, the run has 32"),
        ({"d_key": 64, "d_value": 32}, r"model.d_value: expected 64 .*, the run has 32"),
        ({"decoder_heads": 4, "d_key": 64, "d_value": 64}, r"model.d_key: expected 128"),
        ({"ablation": "no_residual"}, r"model.ablation: expected none .*has no_residual"),
        ({"architecture": "recurrent"}, r"model.architecture: expected transformer"),
    ],
)
def test_other_networks(model: dict[str, Any], message: str) -> None:
    with pytest.raises(ExportError, match=message):
        check(config(**model))


def test_other_text() -> None:
    with pytest.raises(ExportError, match=r"data.source_end: expected true .* the run has false"):
        check(config({"source_end": False}))
    words = Words(["a", "b"], "")
    with pytest.raises(ExportError, match=r"data.algorithm: expected unigram.* the run has words"):
        sentencepiece_sides(Tokenizer(words, words))
