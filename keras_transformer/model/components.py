"""Factories of the encoder's and decoder's components, chosen by name in the configuration.

Each table maps the values of one option to classes: the paper's first, then those of `variants`.
The functions pass ``options`` on to the Keras layer.
"""

from __future__ import annotations

from typing import Any

from keras_transformer.config import ModelConfig
from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.positions import LearnedPositionalEncoding, PositionalEncoding
from keras_transformer.model.sublayer import SublayerConnection
from keras_transformer.model.variants.alibi import AlibiAttention
from keras_transformer.model.variants.no_positions import NoPositionalEncoding
from keras_transformer.model.variants.pre_norm import PreNormConnection
from keras_transformer.model.variants.rotary import RotaryAttention

CONNECTIONS: dict[str, type[SublayerConnection]] = {
    "post": SublayerConnection,
    "pre": PreNormConnection,
}
"""Residual connection and layer normalization around each sub-layer, by ``norm``."""

POSITIONAL_ENCODINGS: dict[str, type[PositionalEncoding]] = {
    "sinusoidal": PositionalEncoding,
    "learned": LearnedPositionalEncoding,
    "rotary": NoPositionalEncoding,
    "alibi": NoPositionalEncoding,
    "none": NoPositionalEncoding,
}
"""Encoding that is added to the embeddings, by ``positions``."""

SELF_ATTENTIONS: dict[str, type[MultiHeadAttention]] = {
    "sinusoidal": MultiHeadAttention,
    "learned": MultiHeadAttention,
    "rotary": RotaryAttention,
    "alibi": AlibiAttention,
    "none": MultiHeadAttention,
}
"""Self-attention, by ``positions``: rotary and ALiBi encode positions here."""


def connection_class(config: ModelConfig) -> type[SublayerConnection]:
    """Return the class of the sub-layer connections."""
    return CONNECTIONS[config.norm]


def sublayer_connection(config: ModelConfig, **options: Any) -> SublayerConnection:
    """Build a sub-layer connection."""
    return connection_class(config)(config.dropout, **options)


def positional_encoding(config: ModelConfig, **options: Any) -> PositionalEncoding:
    """Build a positional encoding."""
    positions = "none" if config.architecture == "recurrent" else config.positions
    encoding = POSITIONAL_ENCODINGS[positions]
    if issubclass(encoding, LearnedPositionalEncoding):
        return encoding(config.max_positions, config.dropout, **options)
    return encoding(config.dropout, **options)


def self_attention(config: ModelConfig, **options: Any) -> MultiHeadAttention:
    """Build a self-attention layer."""
    return _attention(SELF_ATTENTIONS[config.positions], config, options)


def cross_attention(config: ModelConfig, **options: Any) -> MultiHeadAttention:
    """Build a cross-attention layer.

    It ignores ``positions``: a source and a target position have no meaningful distance.
    """
    return _attention(MultiHeadAttention, config, options)


def feed_forward(config: ModelConfig, **options: Any) -> FeedForward:
    """Build a feed-forward network."""
    return FeedForward(config.d_model, config.d_ff, config.feed_forward_dropout, **options)


def _attention(
    kind: type[MultiHeadAttention], config: ModelConfig, options: dict[str, Any]
) -> MultiHeadAttention:
    return kind(
        config.d_model,
        config.heads,
        config.key_width,
        config.value_width,
        config.attention_dropout,
        config.attention,
        **options,
    )
