"""Section ``model``: the architecture."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from keras_transformer.field_types import format_value
from keras_transformer.validation import (
    MAX_LAYERS,
    MAX_LENGTH,
    MAX_VOCABULARY_SIZE,
    MAX_WIDTH,
    RATE,
    between,
    check_fields,
    option,
    require,
)

Architecture = Literal["transformer", "recurrent"]
Norm = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]
Embeddings = Literal["tied", "decoder", "untied"]
Attention = Literal["plain", "blockwise"]
Ablation = Literal[
    "none",
    "unscaled_attention",
    "no_residual",
    "no_normalization",
    "batch_normalization",
    "no_feed_forward",
    "no_encoder_feed_forward",
    "no_decoder_feed_forward",
    "unscaled_embeddings",
]

# The fields that a recurrent network has a use for.
_RECURRENT = {
    "architecture",
    "source_vocabulary_size",
    "target_vocabulary_size",
    "encoder_layers",
    "decoder_layers",
    "d_model",
    "dropout",
    "embeddings",
}


@dataclass(frozen=True)
class ModelConfig:
    """The network of "Attention Is All You Need"; the defaults are its base model (Table 3)."""

    source_vocabulary_size: int = option(0, between(0, MAX_VOCABULARY_SIZE))
    """Source vocabulary size; 0 takes the tokenizer's."""
    target_vocabulary_size: int = option(0, between(0, MAX_VOCABULARY_SIZE))
    """Target vocabulary size; 0 takes the tokenizer's."""
    encoder_layers: int = option(6, between(1, MAX_LAYERS))
    """Encoder layers, N (section 3.1)."""
    decoder_layers: int = option(6, between(1, MAX_LAYERS))
    """Decoder layers, N (section 3.1)."""
    d_model: int = option(512, between(1, MAX_WIDTH))
    """Width of embeddings and sub-layer outputs; of a recurrent network's states."""
    heads: int = option(8, between(1, MAX_WIDTH))
    """Attention heads, h (section 3.2.2)."""
    d_key: int = option(0, between(0, MAX_WIDTH))
    """Query and key width per head, d_k; 0 means d_model / heads."""
    d_value: int = option(0, between(0, MAX_WIDTH))
    """Value width per head, d_v; 0 means d_model / heads."""
    d_ff: int = option(2048, between(1, 16 * MAX_WIDTH))
    """Inner width of the feed-forward network (section 3.3)."""
    dropout: float = option(0.1, RATE)
    """Dropout rate of sub-layer outputs and embeddings (section 5.4)."""
    attention_dropout: float = option(0.1, RATE)
    """Dropout rate of attention weights."""
    feed_forward_dropout: float = option(0.0, RATE)
    """Dropout rate between the two dense layers of the feed-forward network."""
    norm: Norm = "post"
    """post: LayerNorm(x + Sublayer(x)), the paper; pre: x + Sublayer(LayerNorm(x))."""
    positions: Positions = "sinusoidal"
    """Position encoding: sinusoidal (the paper), learned, rotary, alibi or none."""
    max_positions: int = option(1024, between(1, MAX_LENGTH))
    """Number of learned positions, at least data.max_tokens; the other encodings have no
    limit."""
    embeddings: Embeddings = "tied"
    """tied: source, target and output projection share one matrix (section 3.4); decoder:
    target and output projection share one; untied: three matrices."""
    architecture: Architecture = "transformer"
    """transformer: the paper; recurrent: bidirectional LSTM encoder, LSTM decoder with additive
    attention (Bahdanau et al. 2015). It uses the vocabulary sizes, encoder_layers,
    decoder_layers, d_model, dropout and embeddings; the other options keep their defaults."""
    attention: Attention = "plain"
    """Attention in training, with the same result: plain keeps the weights of all pairs of
    positions, so memory grows with the square of the length; blockwise recomputes them in the
    backward pass, so memory grows with the length, for sentences of several hundred tokens."""
    ablation: Ablation = "none"
    """A part of the model to break on purpose, for experiments only: attention scores without
    1 / sqrt(d_k), sub-layers without residual connection or without layer normalization, batch
    normalization in its place, no feed-forward sub-layers (in encoder, decoder or both),
    embeddings without sqrt(d_model)."""

    def __post_init__(self) -> None:
        check_fields(self, "model")
        if self.architecture == "recurrent":
            self._check_recurrent()
        else:
            self._check_heads()
        if self.embeddings == "tied":
            require(
                self.source_vocabulary_size == self.target_vocabulary_size,
                "model.embeddings",
                "decoder or untied where the vocabularies differ in size "
                f"({self.source_vocabulary_size} and {self.target_vocabulary_size})",
                self.embeddings,
            )

    def _check_heads(self) -> None:
        """Refuse widths and variants that do not fit together."""
        if not (self.d_key and self.d_value):
            require(
                self.d_model % self.heads == 0,
                "model.d_model",
                f"a multiple of model.heads ({self.heads}), or model.d_key and model.d_value set",
                self.d_model,
            )
        if self.positions == "rotary":
            require(
                self.key_width % 2 == 0,
                "model.d_key",
                "an even width for rotary positions",
                self.key_width,
            )
        if self.ablation == "unscaled_attention":
            require(
                self.positions not in ("rotary", "alibi"),
                "model.positions",
                "sinusoidal, learned or none with model.ablation unscaled_attention",
                self.positions,
            )
        if self.ablation in ("no_residual", "no_normalization", "batch_normalization"):
            require(
                self.norm == "post",
                "model.norm",
                f"post with model.ablation {self.ablation}",
                self.norm,
            )

    def _check_recurrent(self) -> None:
        """Refuse values that would have no effect."""
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            require(
                item.name in _RECURRENT or value == item.default,
                f"model.{item.name}",
                f"{format_value(item.default)}, its default, for model.architecture recurrent, "
                "which does not use it",
                value,
            )

    @classmethod
    def of(cls, values: ModelConfig | dict[str, Any]) -> ModelConfig:
        """Return the configuration, or build it from its fields, as saved models hold them."""
        return values if isinstance(values, ModelConfig) else cls(**values)

    def warnings(self) -> list[str]:
        """Return a line for the log if the model is broken on purpose, else none."""
        if self.ablation == "none":
            return []
        return [
            f"model.ablation {self.ablation}: a part of this model is broken on purpose, for "
            "experiments; do not serve it"
        ]

    @property
    def key_width(self) -> int:
        """Query and key width per head: ``d_key``, or ``d_model / heads`` if that is 0."""
        return self.d_key or self.d_model // self.heads

    @property
    def value_width(self) -> int:
        """Value width per head: ``d_value``, or ``d_model / heads`` if that is 0."""
        return self.d_value or self.d_model // self.heads
