"""CTranslate2 specification of a model: the mapping of its weights, and unsupported options."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from ctranslate2.specs.transformer_spec import (
    FeedForwardSpec,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
)

from keras_transformer.config import ModelConfig
from keras_transformer.config.model import Side
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.model import transformer
from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.positions import PositionalEncoding
from keras_transformer.model.sublayer import SublayerConnection
from keras_transformer.serving.settings import ExportError, Precision
from keras_transformer.special_tokens import END, START, UNKNOWN

_ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "gelu_sigmoid": Activation.GELUSigmoid,
    "silu": Activation.SWISH,
}


def check(config: ModelConfig) -> None:
    """Refuse a model that CTranslate2 cannot compute.

    Raises:
        ExportError: It is recurrent, has an ablation or ALiBi positions, or keys and values of
            different width.
    """
    if config.architecture != "transformer":
        raise ExportError(
            "model.architecture: expected transformer for --format ctranslate2, "
            f"the run has {config.architecture}"
        )
    if config.ablation != "none":
        raise ExportError(
            "model.ablation: expected none for --format ctranslate2 (it computes the paper's "
            f"components only), the run has {config.ablation}"
        )
    if config.positions == "alibi":
        raise ExportError(
            "model.positions: expected sinusoidal, learned, rotary or none for --format "
            "ctranslate2 (it has no ALiBi in encoders), the run has alibi"
        )
    for side in (config.side("encoder"), config.side("decoder")):
        if side.key_width != side.value_width:
            raise ExportError(
                "model.d_value: expected the width of model.d_key for --format ctranslate2, "
                f"the run has {side.value_width} and {side.key_width}"
            )


def build_spec(
    model: keras.Model,
    config: ModelConfig,
    tokenizer: Tokenizer,
    positions: int,
    dtype: Precision,
    source_end: bool = True,
) -> TransformerSpec:
    """Return the specification of a model, ready to be saved.

    Args:
        model: A model from ``transformer.build``.
        config: Its configuration, accepted by ``check``.
        tokenizer: Its tokenizer.
        positions: Rows of the table of positional encodings.
        dtype: Storage type of the weights.
        source_end: ``data.source_end``: whether the engine ends each source with END.
    """
    result = _SpecBuilder(model, config, positions, dtype).build(tokenizer)
    result.config.add_source_eos = source_end
    return result


class _SpecBuilder:
    """Builder that copies the weights of a model into a CTranslate2 specification."""

    def __init__(
        self, model: keras.Model, config: ModelConfig, positions: int, dtype: Precision
    ) -> None:
        self.model = model
        self.config = config
        self.positions = positions
        self.dtype = dtype

    def build(self, tokenizer: Tokenizer) -> TransformerSpec:
        config = self.config
        encoder = TransformerEncoderSpec(config.encoder_layers, **self._options("encoder"))
        decoder = TransformerDecoderSpec(
            config.decoder_layers,
            # `return_attention` returns the mean of its heads, as inference/alignment does.
            alignment_layer=max(config.decoder_layers - 2, 0),
            alignment_heads=0,
            **self._options("decoder"),
        )
        result = TransformerSpec(encoder, decoder)
        self._encoder(encoder)
        self._decoder(decoder)
        _register_tokenizer(result, tokenizer)
        result.config.layer_norm_epsilon = config.layer_norm_epsilon
        result.validate()
        result.optimize(self.dtype)
        return result

    def _options(self, side: Side) -> dict[str, Any]:
        """Return the arguments of a side's specification."""
        config = self.config.side(side)
        # A head width other than d_model / heads must be given.
        width = None if config.key_width * config.heads == config.d_model else config.key_width
        options: dict[str, Any] = {
            "num_heads": config.heads,
            "head_dim": width,
            "pre_norm": True,  # else it has no place for a final norm; `_stack` sets it
            "no_final_norm": self.model.get_layer(side).final_norm is None,
            "activation": _ACTIVATIONS[config.activation],
            "layernorm_embedding": config.embedding_norm,
        }
        if config.positions == "rotary":
            options |= {"rotary_dim": 0, "rotary_interleave": False}  # all features, in two halves
        return options

    def _encoder(self, spec: TransformerEncoderSpec) -> None:
        spec.embeddings[0].weight = self._array(transformer.source_embedding(self.model).matrix)
        self._stack(spec, "encoder", "source_positions")
        layers = self.model.get_layer("encoder").layers
        for layer_spec, layer in zip(spec.layer, layers, strict=True):
            self._self_attention(
                layer_spec.self_attention, layer.self_attention, layer.self_attention_connection
            )
            self._feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_connection)

    def _decoder(self, spec: TransformerDecoderSpec) -> None:
        spec.embeddings.weight = self._array(transformer.target_embedding(self.model).matrix)
        projection = transformer.projection(self.model)
        spec.projection.weight = self._array(projection.matrix)
        if projection.output_bias is not None:
            spec.projection.bias = self._array(projection.output_bias)
        self._stack(spec, "decoder", "target_positions")
        layers = self.model.get_layer("decoder").layers
        for layer_spec, layer in zip(spec.layer, layers, strict=True):
            self._self_attention(
                layer_spec.self_attention, layer.self_attention, layer.self_attention_connection
            )
            attention = layer.cross_attention
            query, key_value, output = layer_spec.attention.linear
            self._projections(query, attention, "query")
            self._projections(key_value, attention, "key", "value")
            self._projections(output, attention, "output")
            self._norm(
                layer_spec.attention.layer_norm, layer.cross_attention_connection.normalization
            )
            self._feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_connection)

    def _stack(self, spec: Any, side: Side, positions: str) -> None:
        """Set the norms of a side, and what belongs to its embeddings."""
        spec.pre_norm = self.config.side(side).norm == "pre"
        spec.scale_embeddings = self.config.scale_embeddings
        final_norm = self.model.get_layer(side).final_norm
        if final_norm is not None:
            self._norm(spec.layer_norm, final_norm)
        layer = self.model.get_layer(positions)
        if self.config.embedding_norm:
            self._norm(spec.layernorm_embedding, layer.normalization)
            layer = layer.encoding
        if self.config.positions != "rotary":
            spec.position_encodings.encodings = self._encodings(layer)

    def _encodings(self, layer: PositionalEncoding) -> np.ndarray:
        """Return the positional encodings, (positions, D) or more rows."""
        count = self.positions
        if self.config.positions == "learned":
            count = max(count, layer.table.shape[0])  # later positions share its last row
        return self._array(layer.add_encoding(tf.zeros([1, count, self.config.d_model]), 0)[0])

    def _self_attention(
        self,
        spec: MultiHeadAttentionSpec,
        layer: MultiHeadAttention,
        connection: SublayerConnection,
    ) -> None:
        inputs, output = spec.linear
        self._projections(inputs, layer, "query", "key", "value")
        self._projections(output, layer, "output")
        self._norm(spec.layer_norm, connection.normalization)

    def _feed_forward(
        self, spec: FeedForwardSpec, layer: FeedForward, connection: SublayerConnection
    ) -> None:
        self._linear(spec.linear_0, layer.inner_kernel)
        spec.linear_0.bias = self._array(layer.inner_bias)
        self._linear(spec.linear_1, layer.outer_kernel)
        spec.linear_1.bias = self._array(layer.outer_bias)
        self._norm(spec.layer_norm, connection.normalization)

    def _linear(self, spec: LinearSpec, *kernels: Any) -> None:
        """Join kernels (I, O) of the same input into one matrix (O, I)."""
        spec.weight = np.concatenate([self._array(kernel).T for kernel in kernels])

    def _projections(self, spec: LinearSpec, layer: MultiHeadAttention, *names: str) -> None:
        """Join projections of the same input, with their biases if there are any."""
        self._linear(spec, *(getattr(layer, f"{name}_kernel") for name in names))
        if layer.use_bias:
            biases = [self._array(getattr(layer, f"{name}_bias")) for name in names]
            spec.bias = np.concatenate(biases)

    def _norm(self, spec: LayerNormSpec, layer: keras.layers.LayerNormalization) -> None:
        spec.gamma = self._array(layer.gamma)
        spec.beta = self._array(layer.beta)

    def _array(self, values: Any) -> np.ndarray:
        """Return a cast copy: CTranslate2 quantizes in place, and casts to bfloat16 with torch."""
        bfloat16 = self.dtype == "bfloat16"
        return np.array(values).astype(tf.bfloat16.as_numpy_dtype if bfloat16 else np.float32)


def _register_tokenizer(spec: TransformerSpec, tokenizer: Tokenizer) -> None:
    spec.register_source_vocabulary(_names(tokenizer.source))
    spec.register_target_vocabulary(_names(tokenizer.target))
    unknown, start, end = tokenizer.target.pieces([UNKNOWN, START, END])
    spec.config.unk_token = unknown
    spec.config.bos_token = spec.config.decoder_start_token = start
    spec.config.eos_token = end


def _names(side: LanguageTokenizer) -> list[str]:
    return side.pieces(range(side.size))
