"""Factories of the encoder's and decoder's components, chosen by name in the configuration.

Each table maps the values of one option to classes: the paper's first, then those of `variants`.
The functions pass ``options`` on to the Keras layer. Those of the two sides' components take
the configuration of that side, from `ModelConfig.side`.
"""

from __future__ import annotations

from typing import Any

from keras_transformer.config import ModelConfig
from keras_transformer.config.model import Side
from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.embedding import TokenEmbedding
from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.kernels.normalization import LayerNormalization
from keras_transformer.model.positions import LearnedPositionalEncoding, PositionalEncoding
from keras_transformer.model.sublayer import SublayerConnection
from keras_transformer.model.variants import activations
from keras_transformer.model.variants.ablations.batch_normalization import (
    BatchNormalizationConnection,
)
from keras_transformer.model.variants.ablations.no_feed_forward import (
    NoFeedForward,
    NoFeedForwardConnection,
)
from keras_transformer.model.variants.ablations.no_normalization import NoNormalizationConnection
from keras_transformer.model.variants.ablations.no_residual import NoResidualConnection
from keras_transformer.model.variants.ablations.unscaled_attention import UnscaledAttention
from keras_transformer.model.variants.alibi import AlibiAttention
from keras_transformer.model.variants.embedding_norm import NormalizedPositionalEncoding
from keras_transformer.model.variants.no_positions import NoPositionalEncoding
from keras_transformer.model.variants.output_bias import BiasedTokenEmbedding
from keras_transformer.model.variants.pre_norm import PreNormConnection
from keras_transformer.model.variants.rotary import RotaryAttention
from keras_transformer.model.variants.sinusoids import AlternativeSinusoidalEncoding

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

FEED_FORWARDS: dict[str, type[FeedForward]] = {
    "relu": FeedForward,
    "gelu": activations.GeluFeedForward,
    "gelu_tanh": activations.TanhGeluFeedForward,
    "gelu_sigmoid": activations.SigmoidGeluFeedForward,
    "silu": activations.SiluFeedForward,
}
"""Feed-forward network, by ``activation``."""


# Components that `ablation` puts in the place of the usual ones; each ablation changes one kind.

ABLATED_CONNECTIONS: dict[str, type[SublayerConnection]] = {
    "no_residual": NoResidualConnection,
    "no_normalization": NoNormalizationConnection,
    "batch_normalization": BatchNormalizationConnection,
}
"""Sub-layer connections, by ``ablation``."""

ABLATED_ATTENTIONS: dict[str, type[MultiHeadAttention]] = {"unscaled_attention": UnscaledAttention}
"""Self- and cross-attention, by ``ablation``."""

WITHOUT_FEED_FORWARD: dict[str, tuple[Side, ...]] = {
    "no_feed_forward": ("encoder", "decoder"),
    "no_encoder_feed_forward": ("encoder",),
    "no_decoder_feed_forward": ("decoder",),
}
"""Sides without feed-forward sub-layers, by ``ablation``."""


def connection_class(config: ModelConfig) -> type[SublayerConnection]:
    """Return the class of the sub-layer connections."""
    return ABLATED_CONNECTIONS.get(config.ablation, CONNECTIONS[config.norm])


def sublayer_connection(config: ModelConfig, **options: Any) -> SublayerConnection:
    """Build a sub-layer connection."""
    return connection_class(config)(config.dropout, config.layer_norm_epsilon, **options)


def final_normalization(config: ModelConfig, **options: Any) -> LayerNormalization | None:
    """Build the normalization after the last layer, or return None if there is none."""
    final = config.final_norm
    if final == "none" or (
        final == "auto" and not connection_class(config).needs_final_normalization
    ):
        return None
    return LayerNormalization(config.layer_norm_epsilon, **options)


def positional_encoding(config: ModelConfig, **options: Any) -> PositionalEncoding:
    """Build a positional encoding, with a normalization of the sum if there is one."""
    if not config.embedding_norm:
        return _positional_encoding(config, config.dropout, options)
    inner = _positional_encoding(config, 0.0, options | {"name": "encoding"})
    return NormalizedPositionalEncoding(inner, config.dropout, config.layer_norm_epsilon, **options)


def _positional_encoding(
    config: ModelConfig, dropout: float, options: dict[str, Any]
) -> PositionalEncoding:
    encoding = POSITIONAL_ENCODINGS[config.positions]
    if issubclass(encoding, LearnedPositionalEncoding):
        return encoding(config.max_positions, dropout, **options)
    if config.paper_sinusoids:
        return encoding(dropout, **options)
    return AlternativeSinusoidalEncoding(
        config.position_layout, config.position_rates, config.first_position, dropout, **options
    )


def self_attention(config: ModelConfig, **options: Any) -> MultiHeadAttention:
    """Build a self-attention layer."""
    usual = SELF_ATTENTIONS[config.positions]
    return _attention(ABLATED_ATTENTIONS.get(config.ablation, usual), config, options)


def cross_attention(config: ModelConfig, **options: Any) -> MultiHeadAttention:
    """Build a cross-attention layer.

    It ignores ``positions``: a source and a target position have no meaningful distance.
    """
    kind = ABLATED_ATTENTIONS.get(config.ablation, MultiHeadAttention)
    return _attention(kind, config, options)


def token_embedding(
    config: ModelConfig, vocabulary_size: int, projects: bool, **options: Any
) -> TokenEmbedding:
    """Build a token embedding, an output projection, or a layer that is both.

    Args:
        config: The model's configuration.
        vocabulary_size: V.
        projects: Whether the layer is the output projection.
        options: Arguments of the Keras layer.
    """
    kind = BiasedTokenEmbedding if projects and config.output_bias else TokenEmbedding
    scale = None if config.scale_embeddings else 1.0
    return kind(vocabulary_size, config.d_model, scale, **options)


def feed_forward_connection(config: ModelConfig, side: Side, **options: Any) -> SublayerConnection:
    """Build the connection of a feed-forward network in the encoder or the decoder."""
    if side in WITHOUT_FEED_FORWARD.get(config.ablation, ()):
        return NoFeedForwardConnection(config.dropout, config.layer_norm_epsilon, **options)
    return sublayer_connection(config, **options)


def feed_forward(config: ModelConfig, side: Side, **options: Any) -> FeedForward:
    """Build a feed-forward network of the encoder or the decoder."""
    ablated = side in WITHOUT_FEED_FORWARD.get(config.ablation, ())
    kind = NoFeedForward if ablated else FEED_FORWARDS[config.activation]
    return kind(config.d_model, config.d_ff, config.feed_forward_dropout, **options)


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
        config.attention_bias,
        **options,
    )
