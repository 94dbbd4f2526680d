"""Encoder and decoder of another system as fields of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stack:
    """An encoder or a decoder.

    Args:
        layers: Number of layers.
        heads: Attention heads.
        d_ff: Inner width of the feed-forward network.
        pre: Whether layer normalization comes before each sub-layer.
        final_norm: Whether layer normalization follows the last layer.
    """

    layers: int
    heads: int
    d_ff: int
    pre: bool
    final_norm: bool


def stack_settings(d_model: int, encoder: Stack, decoder: Stack) -> dict[str, Any]:
    """Return our fields of the two stacks; of the decoder, those that differ from the encoder's."""
    return {
        "model.d_model": d_model,
        "model.encoder_layers": encoder.layers,
        "model.decoder_layers": decoder.layers,
        "model.heads": encoder.heads,
        "model.decoder_heads": 0 if decoder.heads == encoder.heads else decoder.heads,
        "model.d_ff": encoder.d_ff,
        "model.decoder_d_ff": 0 if decoder.d_ff == encoder.d_ff else decoder.d_ff,
        "model.norm": _norm(encoder),
        "model.decoder_norm": "same" if decoder.pre == encoder.pre else _norm(decoder),
        "model.final_norm": _final_norm(encoder, decoder),
    }


def stack_facts(encoder: Stack, decoder: Stack, d_model: int) -> list[str]:
    """Return what a user wants to know first about a network."""
    return [f"{encoder.layers} + {decoder.layers} layers", f"width {d_model}"]


def _norm(stack: Stack) -> str:
    return "pre" if stack.pre else "post"


def _final_norm(encoder: Stack, decoder: Stack) -> str:
    if encoder.final_norm == encoder.pre and decoder.final_norm == decoder.pre:
        return "auto"
    names = {(True, True): "both", (True, False): "encoder", (False, True): "decoder"}
    return names.get((encoder.final_norm, decoder.final_norm), "none")
