"""Weights and configuration of Hugging Face's MarianMT from those of a run.

MarianMT always computes layer normalization with epsilon 1e-5, has all biases, and adds sinusoids
with sines before cosines and the rates of the paper. A run that differs is written so that
MarianMT computes the same:

- Biases that it lacks are zeros.
- Other positions are written as a table, ``embed_positions.weight``, which MarianMT loads.
- Layer normalization of x with epsilon e is that of c x with epsilon c^2 e. So everything that goes
  into a normalization is multiplied by c, and the projections that read its result are divided
  by c.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.named_weights import named_weights
from keras_transformer.serving.marian_hf.vocabulary import END_ID, MarianVocabulary
from keras_transformer.special_tokens import END, LACKING_BIAS, PAD, START, UNKNOWN

Tensors = dict[str, np.ndarray]

EPSILON = 1e-5
"""Of MarianMT's layer normalization, PyTorch's default."""

_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "gelu_sigmoid": "quick_gelu",
    "silu": "swish",
}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_SIDES = ("encoder", "decoder")


class MarianNetwork:
    """A model in the terms of MarianMT.

    Args:
        model: A model from ``transformer.build``.
        config: Its configuration, accepted by `representable.check`.
        positions: Number of positions.
    """

    def __init__(self, model: keras.Model, config: ModelConfig, positions: int) -> None:
        self._config = config
        self._positions = positions
        self._weights = {path: each.numpy() for path, each in named_weights(model).items()}
        self.scale = (EPSILON / config.layer_norm_epsilon) ** 0.5
        """Factor c of everything that is normalized."""
        own = (config.positions, config.position_layout, config.position_rates)
        computed = own == ("sinusoidal", "halves", "paper") and config.first_position == 0
        self.has_tables = not (computed and self.scale == 1)
        """Whether the positions are stored, as MarianMT would compute others."""
        self._tables = {
            side: np.array(_table(model.get_layer(f"{name}_positions"), positions, config.d_model))
            for side, name in zip(_SIDES, ("source", "target"), strict=True)
            if self.has_tables
        }

    @property
    def _matrices(self) -> tuple[str, str, str]:
        """Layers of the source and target embeddings and of the projection."""
        if self._config.embeddings == "tied":
            return ("embedding",) * 3
        untied = self._config.embeddings == "untied"
        return (
            "source_embedding",
            "target_embedding",
            "projection" if untied else "target_embedding",
        )

    def _matrix(self, layer: str) -> np.ndarray:
        return self._weights[f"{layer}/matrix"]

    def _output_bias(self) -> np.ndarray:
        layer = self._matrices[2]
        zeros = np.zeros(len(self._matrix(layer)), np.float32)
        return self._weights.get(f"{layer}/output_bias", zeros)

    def lacking(self) -> tuple[set[int], set[int]]:
        """Return for each side the tokens that are the unknown one to MarianMT's tokenizer.

        `convert` adds them for pieces of a SentencePiece model that the vocabulary of the network
        lacks: they have the embedding of the unknown token, and are never generated. Once trained,
        they differ from it, and are tokens like all others.
        """
        source, target = map(self._matrix, self._matrices[:2])
        read, written = ((matrix == matrix[UNKNOWN]).all(axis=1) for matrix in (source, target))
        written &= self._output_bias() == np.float32(LACKING_BIAS)
        if self._config.embeddings == "tied":
            read = written
        read[: END + 1] = written[: END + 1] = False
        return set(np.flatnonzero(read).tolist()), set(np.flatnonzero(written).tolist())

    def start_is_padding(self) -> bool:
        """Return whether the start token and padding share a row, as MarianMT needs."""
        target = self._matrix(self._matrices[1])
        return self._config.embeddings == "untied" or np.array_equal(target[START], target[PAD])

    def config(self, source: MarianVocabulary, target: MarianVocabulary) -> dict[str, Any]:
        """Return the contents of ``config.json`` without the type of the weights."""
        config = self._config
        values: dict[str, Any] = {
            "architectures": ["MarianMTModel"],
            "model_type": "marian",
            "vocab_size": len(source.tokens),
            "decoder_vocab_size": len(target.tokens),
            "share_encoder_decoder_embeddings": config.embeddings == "tied",
            "tie_word_embeddings": config.embeddings != "untied",
            "d_model": config.d_model,
            "activation_function": _ACTIVATIONS[config.activation],
            "scale_embedding": config.scale_embeddings,
            "max_position_embeddings": self._positions,
            "static_position_embeddings": True,
            "normalize_before": False,
            "normalize_embedding": False,
            "add_final_layer_norm": False,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.feed_forward_dropout,
            "is_encoder_decoder": True,
            "use_cache": True,
            "bos_token_id": None,
            "pad_token_id": target.pad,
            "decoder_start_token_id": target.pad,
            "eos_token_id": END_ID,
            "forced_eos_token_id": END_ID,
        }
        for side, layers in zip(
            _SIDES, (config.encoder_layers, config.decoder_layers), strict=True
        ):
            own = config.side(side)  # type: ignore[arg-type]
            values[f"{side}_layers"] = layers
            values[f"{side}_attention_heads"] = own.heads
            values[f"{side}_ffn_dim"] = own.d_ff
            values[f"{side}_layerdrop"] = 0.0
        return values

    def tensors(self, source: MarianVocabulary, target: MarianVocabulary) -> Tensors:
        """Return the tensors by MarianMT's names, in float32."""
        tensors = self._embeddings(source.rows, target.rows)
        for side, table in self._tables.items():
            tensors[f"model.{side}.embed_positions.weight"] = table * np.float32(self.scale)
        layers = (self._config.encoder_layers, self._config.decoder_layers)
        for side, count in zip(_SIDES, layers, strict=True):
            for layer in range(count):
                is_last = side == "decoder" and layer == count - 1
                tensors |= self._layer(f"{side}/layers/{layer}", f"model.{side}.layers.{layer}",
                    self._output_scale() if is_last else self.scale,
                )  # fmt: skip
        return tensors

    def _output_scale(self) -> float:
        """Return the factor of the decoder's output: a matrix that is embedded times c too."""
        return 1.0 if self._config.embeddings == "untied" else 1 / self.scale

    def _embeddings(self, source: np.ndarray, target: np.ndarray) -> Tensors:
        """Return embeddings, projection and output bias with rows in MarianMT's order.

        Args:
            source: For each source id, that of the run.
            target: For each target id, that of the run.
        """
        first, second, projection = map(self._matrix, self._matrices)
        # MarianMT's decoder starts with padding.
        started = np.where(target == PAD, START, target)
        embedded = second[started] * np.float32(self.scale)
        # The projection's row of padding is that of the start token where the matrices are tied.
        scored = target if self.start_is_padding() else started
        tensors = {"final_logits_bias": self._output_bias()[scored][None, :]}
        if self._config.embeddings == "tied":
            return tensors | {"model.shared.weight": embedded}
        tensors["model.encoder.embed_tokens.weight"] = first[source] * np.float32(self.scale)
        tensors["model.decoder.embed_tokens.weight"] = embedded
        if self._config.embeddings == "untied":
            tensors["lm_head.weight"] = projection[scored]
        return tensors

    def _layer(self, path: str, name: str, last: float) -> Tensors:
        """Return a layer; ``last`` is the factor of its output."""
        scale, tensors = self.scale, Tensors()
        for ours, theirs in _ATTENTIONS.items():
            if f"{path}/{ours}/query_kernel" not in self._weights:
                continue
            for part, projection in _PROJECTIONS.items():
                tensors |= self._linear(
                    f"{path}/{ours}/{part}", f"{name}.{theirs}.{projection}", 1 / scale, 1
                )
            tensors |= self._linear(
                f"{path}/{ours}/output", f"{name}.{theirs}.out_proj", scale, scale
            )
            tensors |= self._norm(f"{path}/{ours}_connection", f"{name}.{theirs}_layer_norm", scale)
        tensors |= self._linear(f"{path}/feed_forward/inner", f"{name}.fc1", 1 / scale, 1)
        tensors |= self._linear(f"{path}/feed_forward/outer", f"{name}.fc2", scale, scale)
        return tensors | self._norm(
            f"{path}/feed_forward_connection", f"{name}.final_layer_norm", last
        )

    def _linear(self, path: str, name: str, kernel: float, bias: float) -> Tensors:
        """Return a kernel and a bias times their factors."""
        matrix = self._weights[f"{path}_kernel"]  # (in, out); theirs are (out, in)
        zeros = np.zeros(matrix.shape[1], np.float32)
        return {
            f"{name}.weight": matrix.T * np.float32(kernel),
            f"{name}.bias": self._weights.get(f"{path}_bias", zeros) * np.float32(bias),
        }

    def _norm(self, path: str, name: str, scale: float) -> Tensors:
        return {
            f"{name}.{theirs}": self._weights[f"{path}/normalization/{ours}"] * np.float32(scale)
            for ours, theirs in (("gamma", "weight"), ("beta", "bias"))
        }


def _table(layer: Any, positions: int, d_model: int) -> Any:
    """Return what a layer of positions adds, (P, D)."""
    return layer.add_encoding(tf.zeros([1, positions, d_model]), 0)[0]
