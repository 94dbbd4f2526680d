"""Baseline of the laboratory: each variant differs from it in one choice.

It is Pre-LN, like the presets for small corpora; the paper is Post-LN. Pre-LN tolerates high
learning rates and missing parts, so the effect of a removed part is not mixed with unstable
training, and it learns within minutes. The experiments about warm-up and normalization train both.
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
"""Fields that differ from the defaults. Change the size and length of all runs here."""

RUN_OPTIONS: dict[str, Any] = {"keep_best": 1_000, "log_every": 10}
"""Fields of ``train`` that each run needs for its measurements; they do not change its result."""


def baseline() -> Config:
    """Return the configuration of the baseline on the built-in corpus."""
    return from_dict(BASELINE_CONFIG)
