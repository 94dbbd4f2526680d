"""Configuration of fine-tuning: fields that come from the other run, and fields that may differ."""

from __future__ import annotations

from typing import Any

import pytest

from keras_transformer.config import Config, ConfigError, from_dict
from keras_transformer.config.fine_tuning import fine_tuning_base, fine_tuning_config

SOURCE = from_dict(
    {
        "model": {"d_model": 128, "source_vocabulary_size": 900, "target_vocabulary_size": 900},
        "data": {"train": "old", "dev": "old-dev", "target": "de", "vocabulary_size": 1000},
        "train": {"batch_tokens": 4096},
    }
)


def changed(**sections: dict[str, Any]) -> Config:
    return fine_tuning_config(SOURCE, from_dict(sections, SOURCE), "runs/old")


def test_options_left_out_are_those_of_the_other_run() -> None:
    given = {"data": {"train": "new", "dev": "new-dev"}, "train": {"max_steps": 9}}
    config = from_dict(given, fine_tuning_base(SOURCE, given))
    assert (config.data.train, config.data.dev, config.data.target) == ("new", "new-dev", "de")
    assert (config.train.max_steps, config.train.batch_tokens) == (9, 4096)
    assert config.model == SOURCE.model


def test_the_dev_set_belongs_to_the_corpus() -> None:
    assert fine_tuning_base(SOURCE, {"data": {"max_tokens": 9}}).data.dev == "old-dev"
    assert fine_tuning_base(SOURCE, {"data": {"train": "new"}}).data.dev == ""


def test_sizes_of_zero_become_those_of_the_other_run() -> None:
    config = changed(model={"source_vocabulary_size": 0, "target_vocabulary_size": 0})
    assert config == SOURCE


def test_dropout_and_the_kernel_of_attention_may_differ() -> None:
    model = {"dropout": 0.0, "attention_dropout": 0.3, "attention": "blockwise"}
    assert changed(model=model, data={"max_tokens": 30}).model.attention_dropout == 0.3


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"model": {"d_model": 256}}, "model.d_model: expected 128, got 256. The weights and"),
        ({"model": {"norm": "pre"}}, "model.norm: expected 'post', got 'pre'"),
        ({"data": {"algorithm": "bpe"}}, "data.algorithm: expected 'unigram', got 'bpe'"),
        ({"data": {"source_end": False}}, "data.source_end: expected True, got False"),
        ({"data": {"vocabulary_size": 500}}, "come from runs/old: leave these options out"),
        (
            {"model": {"heads": 4}, "data": {"vocabulary_size": 500}},
            "model.heads: expected 8, got 4; data.vocabulary_size: expected 1000, got 500",
        ),
        (
            {"model": {"source_vocabulary_size": 800, "target_vocabulary_size": 800}},
            "model.source_vocabulary_size: expected 900, got 800",
        ),
    ],
)
def test_other_architectures_and_vocabularies_are_refused(
    sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        changed(**sections)
