"""The parts of encoder and decoder, chosen by the names in the configuration.

The tables map each name of an option to a class: the paper's first, then those of `variants`.
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
"""By ``norm``: residual connection and layer normalization around each sub-layer."""

POSITIONAL_ENCODINGS: dict[str, type[PositionalEncoding]] = {
    "sinusoidal": PositionalEncoding,
    "learned": LearnedPositionalEncoding,
    "rotary": NoPositionalEncoding,
    "alibi": NoPositionalEncoding,
    "none": NoPositionalEncoding,
}
"""By ``positions``: the encoding that is added to embeddings."""

SELF_ATTENTIONS: dict[str, type[MultiHeadAttention]] = {
    "sinusoidal": MultiHeadAttention,
    "learned": MultiHeadAttention,
    "rotary": RotaryAttention,
    "alibi": AlibiAttention,
    "none": MultiHeadAttention,
}
"""By ``positions``: self-attention, which in some variants sees positions itself."""


def connection_class(config: ModelConfig) -> type[SublayerConnection]:
    """Return the class of the connections around sub-layers."""
    return CONNECTIONS[config.norm]


def sublayer_connection(config: ModelConfig, **options: Any) -> SublayerConnection:
    """Build the connection around a sub-layer; options are those of a Keras layer."""
    return connection_class(config)(config.dropout, **options)


def positional_encoding(config: ModelConfig, **options: Any) -> PositionalEncoding:
    """Build the encoding of positions; options are those of a Keras layer."""
    encoding = POSITIONAL_ENCODINGS[config.positions]
    if issubclass(encoding, LearnedPositionalEncoding):
        return encoding(config.max_positions, config.dropout, **options)
    return encoding(config.dropout, **options)


def self_attention(config: ModelConfig, **options: Any) -> MultiHeadAttention:
    """Build a self-attention layer; options are those of a Keras layer."""
    return _attention(SELF_ATTENTIONS[config.positions], config, options)


def cross_attention(config: ModelConfig, **options: Any) -> MultiHeadAttention:
    """Build an attention layer from decoder to encoder; options are those of a Keras layer.

    Positions of two sequences have no distance: no variant of them acts here.
    """
    return _attention(MultiHeadAttention, config, options)


def feed_forward(config: ModelConfig, **options: Any) -> FeedForward:
    """Build a feed-forward network; options are those of a Keras layer."""
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
