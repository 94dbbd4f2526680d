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
Side = Literal["encoder", "decoder"]
Norm = Literal["post", "pre"]
DecoderNorm = Literal["same", "post", "pre"]
FinalNorm = Literal["auto", "both", "encoder", "decoder", "none"]
Activation = Literal["relu", "gelu", "gelu_tanh", "gelu_sigmoid", "silu"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]
PositionLayout = Literal["interleaved", "halves"]
PositionRates = Literal["paper", "tensor2tensor"]
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
    "scale_embeddings",
    "output_bias",
}

# The norms of models in which an ablation replaces the sub-layer connections.
_ABLATED_NORMS = {"norm": ("post",), "decoder_norm": ("same", "post"), "final_norm": ("auto",)}

# The fields that only sinusoidal positions have a use for.
_SINUSOIDAL = ("position_layout", "position_rates", "first_position")


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
    decoder_heads: int = option(0, between(0, MAX_WIDTH))
    """Attention heads of the decoder; 0 means model.heads."""
    decoder_d_ff: int = option(0, between(0, 16 * MAX_WIDTH))
    """Inner width of the decoder's feed-forward network; 0 means model.d_ff."""
    activation: Activation = "relu"
    """Activation of the feed-forward network: relu (the paper); gelu, x · Φ(x), or its
    approximations gelu_tanh and gelu_sigmoid, x · σ(1.702 x); silu (swish), x · σ(x)."""
    attention_bias: bool = False
    """Biases in the query, key, value and output projections of attention."""
    dropout: float = option(0.1, RATE)
    """Dropout rate of sub-layer outputs and embeddings (section 5.4)."""
    attention_dropout: float = option(0.1, RATE)
    """Dropout rate of attention weights."""
    feed_forward_dropout: float = option(0.0, RATE)
    """Dropout rate between the two dense layers of the feed-forward network."""
    norm: Norm = "post"
    """post: LayerNorm(x + Sublayer(x)), the paper; pre: x + Sublayer(LayerNorm(x))."""
    decoder_norm: DecoderNorm = "same"
    """Order of normalization in the decoder; same: that of model.norm."""
    final_norm: FinalNorm = "auto"
    """Layer normalization after the last layer: auto, where the norm is pre; both, encoder,
    decoder or none."""
    layer_norm_epsilon: float = option(1e-6, between(1e-12, 0.1))
    """Added to the variance in layer normalization."""
    positions: Positions = "sinusoidal"
    """Position encoding: sinusoidal (the paper), learned, rotary, alibi or none."""
    max_positions: int = option(1024, between(1, MAX_LENGTH))
    """Number of learned positions, at least data.max_tokens; the other encodings have no
    limit."""
    position_layout: PositionLayout = "interleaved"
    """Sinusoidal positions: interleaved, sines and cosines in turn (the paper); halves, all
    sines, then all cosines."""
    position_rates: PositionRates = "paper"
    """Sinusoidal positions: angles of position p are p / 10000^(i / n), with i from 0 to n - 1 and
    n = d_model / 2 (the paper), or p / 10000^(i / (n - 1)), as in tensor2tensor."""
    first_position: int = option(0, between(0, MAX_LENGTH))
    """Sinusoidal positions: position of the first token."""
    embedding_norm: bool = False
    """Layer normalization of embeddings with positions, before dropout."""
    embeddings: Embeddings = "tied"
    """tied: source, target and output projection share one matrix (section 3.4); decoder:
    target and output projection share one; untied: three matrices."""
    scale_embeddings: bool = True
    """Embeddings multiplied by sqrt(d_model) (section 3.4)."""
    output_bias: bool = False
    """A bias of the logits."""
    architecture: Architecture = "transformer"
    """transformer: the paper; recurrent: bidirectional LSTM encoder, LSTM decoder with additive
    attention (Bahdanau et al. 2015). It uses the vocabulary sizes, encoder_layers,
    decoder_layers, d_model, dropout, embeddings, scale_embeddings and output_bias; the other
    options keep their defaults."""
    attention: Attention = "plain"
    """Attention in training, with the same result: plain keeps the weights of all pairs of
    positions, so memory grows with the square of the length; blockwise recomputes them in the
    backward pass, so memory grows with the length, for sentences of several hundred tokens."""
    ablation: Ablation = "none"
    """A part of the model to break on purpose, for experiments only: attention scores without
    1 / sqrt(d_k), sub-layers without residual connection or without layer normalization, batch
    normalization in its place, no feed-forward sub-layers (in encoder, decoder or both)."""

    def __post_init__(self) -> None:
        check_fields(self, "model")
        if self.architecture == "recurrent":
            self._check_recurrent()
        else:
            self._check_heads()
            self._check_positions()
            self._check_ablation()
        if self.embeddings == "tied":
            require(
                self.source_vocabulary_size == self.target_vocabulary_size,
                "model.embeddings",
                "decoder or untied where the vocabularies differ in size "
                f"({self.source_vocabulary_size} and {self.target_vocabulary_size})",
                self.embeddings,
            )

    def _check_heads(self) -> None:
        """Refuse heads that the width cannot be divided among."""
        heads = {"heads": self.heads, "decoder_heads": self.decoder_heads or self.heads}
        for name, count in heads.items():
            if not (self.d_key and self.d_value):
                require(
                    self.d_model % count == 0,
                    "model.d_model",
                    f"a multiple of model.{name} ({count}), or model.d_key and model.d_value set",
                    self.d_model,
                )
            if self.positions == "rotary":
                width = self.d_key or self.d_model // count
                require(width % 2 == 0, "model.d_key", "an even width for rotary positions", width)

    def _check_positions(self) -> None:
        """Refuse options of sinusoids without effect, and widths that they do not fit."""
        for name in _SINUSOIDAL:
            value, default = getattr(self, name), getattr(ModelConfig, name)
            require(
                self.positions == "sinusoidal" or value == default,
                f"model.{name}",
                f"{format_value(default)}, its default, for model.positions {self.positions}, "
                "which has no sinusoids",
                value,
            )
        if self.position_layout == "halves" or self.position_rates == "tensor2tensor":
            require(
                self.d_model % 2 == 0 and self.d_model >= 4,
                "model.d_model",
                "an even width of 4 or more for model.position_layout halves and "
                "model.position_rates tensor2tensor",
                self.d_model,
            )

    def _check_ablation(self) -> None:
        """Refuse ablations of a part that the model does not have."""
        if self.ablation == "unscaled_attention":
            require(
                self.positions not in ("rotary", "alibi"),
                "model.positions",
                "sinusoidal, learned or none with model.ablation unscaled_attention",
                self.positions,
            )
        if self.ablation in ("no_residual", "no_normalization", "batch_normalization"):
            for name, valid in _ABLATED_NORMS.items():
                value = getattr(self, name)
                expected = f"{' or '.join(valid)} with model.ablation {self.ablation}"
                require(value in valid, f"model.{name}", expected, value)

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

    def side(self, side: Side) -> ModelConfig:
        """Return the configuration of the encoder or of the decoder alone.

        Its ``heads``, ``d_ff``, ``norm`` and ``final_norm`` ("auto", "both" or "none") are those of
        the side, so that what builds one side reads no other field for them.
        """
        final = self.final_norm
        if final in ("encoder", "decoder"):
            final = "both" if final == side else "none"
        if side == "encoder":
            return dataclasses.replace(
                self, decoder_heads=0, decoder_d_ff=0, decoder_norm="same", final_norm=final
            )
        return dataclasses.replace(
            self,
            heads=self.decoder_heads or self.heads,
            decoder_heads=0,
            d_ff=self.decoder_d_ff or self.d_ff,
            decoder_d_ff=0,
            norm=self.norm if self.decoder_norm == "same" else self.decoder_norm,
            decoder_norm="same",
            final_norm=final,
        )

    @property
    def paper_sinusoids(self) -> bool:
        """True if no option of sinusoids differs from the paper's."""
        return all(getattr(self, name) == getattr(ModelConfig, name) for name in _SINUSOIDAL)

    @property
    def key_width(self) -> int:
        """Query and key width per head of ``heads``: ``d_key``, or ``d_model / heads`` if 0."""
        return self.d_key or self.d_model // self.heads

    @property
    def value_width(self) -> int:
        """Value width per head of ``heads``: ``d_value``, or ``d_model / heads`` if 0."""
        return self.d_value or self.d_model // self.heads
