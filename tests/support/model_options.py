"""Options of the Transformer beyond the paper, one at a time and many at once."""

from __future__ import annotations

from typing import Any

import pytest

ALL: dict[str, Any] = {
    "activation": "silu",
    "attention_bias": True,
    "output_bias": True,
    "layer_norm_epsilon": 0.01,
    "position_layout": "halves",
    "position_rates": "tensor2tensor",
    "first_position": 2,
    "embedding_norm": True,
    "scale_embeddings": False,
    "decoder_norm": "pre",
    "final_norm": "both",
    "decoder_heads": 4,
    "decoder_d_ff": 20,
}
"""Every option with another value than the paper's."""

ONE: dict[str, dict[str, Any]] = {
    **{name: {"activation": name} for name in ("gelu", "gelu_tanh", "gelu_sigmoid", "silu")},
    "attention bias": {"attention_bias": True},
    "output bias": {"output_bias": True},
    "output bias, decoder": {"output_bias": True, "embeddings": "decoder"},
    "output bias, untied": {"output_bias": True, "embeddings": "untied"},
    "epsilon": {"layer_norm_epsilon": 0.01},
    "halves": {"position_layout": "halves"},
    "tensor2tensor": {"position_rates": "tensor2tensor"},
    "first position": {"first_position": 2},
    "unscaled": {"scale_embeddings": False},
    "embedding norm": {"embedding_norm": True},
    "embedding norm, learned": {"embedding_norm": True, "positions": "learned"},
    "embedding norm, none": {"embedding_norm": True, "positions": "none"},
    "decoder pre": {"decoder_norm": "pre"},
    "decoder post": {"norm": "pre", "decoder_norm": "post"},
    "final norms, post": {"final_norm": "both"},
    "final norm, encoder": {"final_norm": "encoder"},
    "final norm, decoder": {"norm": "pre", "final_norm": "decoder"},
    "no final norm, pre": {"norm": "pre", "final_norm": "none"},
    "decoder heads": {"decoder_heads": 4},
    "decoder heads, widths": {"decoder_heads": 3, "d_key": 4, "d_value": 5},
    "decoder d_ff": {"decoder_d_ff": 20},
}
"""One option, or two that belong together, by name."""


def cases() -> list[Any]:
    """Return ``ALL``, and as slow ones those of ``ONE``, as parameters of a test."""
    one = [pytest.param(fields, id=name, marks=pytest.mark.slow) for name, fields in ONE.items()]
    return [pytest.param(ALL, id="all"), *one]
