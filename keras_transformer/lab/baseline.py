"""Baseline of the laboratory, from which each variant differs in one choice.

It is Pre-LN, as the presets for small corpora are, although the paper is Post-LN. Pre-LN tolerates
high rates and missing parts, so that the effect of a removed part is not mixed with an unstable
optimisation, and it learns within minutes. The experiments about warm-up and normalization train
both orders.
"""

from __future__ import annotations

from typing import Any

from keras_transformer.config import Config, from_dict

BASELINE_CONFIG: dict[str, Any] = {
    "model": {
        "norm": "pre",
        "encoder_layers": 3,
        "decoder_layers": 3,
        "d_model": 128,
        "heads": 4,
        "d_ff": 256,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
    "data": {"vocabulary_size": 4_000},
    "train": {
        "max_steps": 1_200,
        "batch_tokens": 1_024,
        "warmup_steps": 300,
        "learning_rate_factor": 1.0,  # peak rate 0.005
        "checkpoint_every": 100,
        "average": 3,
        "dev_sentences": 200,
    },
}
"""Fields that differ from the defaults; change size and length of all runs here."""

RUN_OPTIONS: dict[str, Any] = {"keep_best": 1_000, "log_every": 10}
"""Fields of ``train`` for the measurements of each run, without influence on its result."""


def baseline() -> Config:
    """Return the configuration of the baseline on the built-in corpus."""
    return from_dict(BASELINE_CONFIG)
