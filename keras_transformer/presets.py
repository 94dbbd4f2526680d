"""Presets: model sizes with matching training options."""

from __future__ import annotations

from typing import Any

from keras_transformer.config import Config, ConfigError, from_dict
from keras_transformer.field_types import format_value

# The presets for small corpora are Pre-LN: on Multi30k `tiny` has 31.7 dev BLEU after 1,750
# steps; Post-LN, the paper's order, at its published peak rate of 0.005 had 10.0.
_TINY: dict[str, Any] = {
    "model": {
        "norm": "pre",
        "encoder_layers": 4,
        "decoder_layers": 4,
        "d_model": 128,
        "heads": 4,
        "d_ff": 256,
        "dropout": 0.3,
        "attention_dropout": 0.1,
    },
    "data": {"vocabulary_size": 10_000},
    "train": {
        "max_steps": 8_000,
        "batch_tokens": 4_350,  # at most; about 4,096 real tokens on average
        "warmup_steps": 2_000,
        "learning_rate_factor": 2.0,  # peak rate 0.004
        "checkpoint_every": 250,
        "average": 10,
    },
}

# The fields of each preset that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    # Minutes on two cores, for the built-in corpus.
    "demo": {
        "model": {
            "norm": "pre",
            "encoder_layers": 3,
            "decoder_layers": 3,
            "d_model": 128,
            "heads": 4,
            "d_ff": 256,
            "dropout": 0.1,
        },
        "data": {"vocabulary_size": 2_500},
        "train": {
            "max_steps": 1_000,
            "batch_tokens": 2_048,
            "warmup_steps": 400,
            "learning_rate_factor": 1.0,
            "checkpoint_every": 200,
            "average": 3,
            "dev_sentences": 200,
        },
    },
    # Tens of thousands of pairs: the size published for Multi30k.
    "tiny": _TINY,
    # The recurrent baseline, with about as many parameters as `tiny` and the same batches.
    "rnn": {
        "model": {
            "architecture": "recurrent",
            "encoder_layers": 1,
            "decoder_layers": 1,
            "d_model": 160,
            "dropout": 0.3,
        },
        "data": _TINY["data"],
        "train": _TINY["train"],
    },
    # Hundreds of thousands of pairs.
    "small": {
        "model": {
            "norm": "pre",
            "encoder_layers": 3,
            "decoder_layers": 3,
            "d_model": 256,
            "heads": 4,
            "d_ff": 1024,
            "dropout": 0.3,
        },
        "data": {"vocabulary_size": 10_000},
        "train": {
            "max_steps": 20_000,
            "batch_tokens": 4_096,
            "learning_rate_factor": 2.0,
            "checkpoint_every": 500,
            "average": 10,
        },
    },
    # The paper's two models (Table 3).
    "base": {"data": {"vocabulary_size": 37_000}},
    "big": {
        "model": {"d_model": 1024, "heads": 16, "d_ff": 4096, "dropout": 0.3},
        "data": {"vocabulary_size": 37_000},
        "train": {"max_steps": 300_000, "average": 20},
    },
}


def preset(name: str) -> Config:
    """Return the configuration of a preset.

    Args:
        name: One of ``PRESETS``.

    Raises:
        ConfigError: The name is unknown.
    """
    if name not in PRESETS:
        raise ConfigError(f"preset: expected one of {', '.join(PRESETS)}, got {format_value(name)}")
    return from_dict(PRESETS[name])
