"""Networks of Hugging Face's MarianMT: the configuration, and the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.torch_layers import fairseq_layer
from keras_transformer.convert.vocabulary_rows import VocabularyRows

Weights = dict[str, np.ndarray]

EPSILON = 1e-5
"""Of layer normalization, PyTorch's default."""

_ACTIVATIONS = {
    "swish": "silu",
    "silu": "silu",
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
}
# Options of earlier versions. MarianMT computes as if they had these values.
_FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
_DROPOUTS = {
    "dropout": "model.dropout",
    "attention_dropout": "model.attention_dropout",
    "activation_dropout": "model.feed_forward_dropout",
}
_SHARED = "model.shared.weight"
_SIDES = ("encoder", "decoder")


class HfMarianNetwork:
    """A network described by a ``config.json``.

    Args:
        config: Its contents.
        file: Its path, for messages.

    Raises:
        ConvertError: A value is missing or cannot be converted.
    """

    def __init__(self, config: Mapping[str, Any], file: object) -> None:
        self._config = config
        self._file = file
        for name, value in _FIXED.items():
            if config.get(name, value) != value:
                raise ConvertError(
                    f"{file}: {name}: expected {value!r}, as MarianMT computes, got "
                    f"{config[name]!r}"
                )
        activation = str(config.get("activation_function", "gelu"))
        if activation not in _ACTIVATIONS:
            raise ConvertError(
                f"{file}: activation_function: expected one of {', '.join(_ACTIVATIONS)}, got "
                f"{activation!r}"
            )
        self.activation = _ACTIVATIONS[activation]
        self.d_model = self._number("d_model")
        self.layers = {side: self._number(f"{side}_layers") for side in _SIDES}
        self.heads = {side: self._number(f"{side}_attention_heads") for side in _SIDES}
        self.d_ff = {side: self._number(f"{side}_ffn_dim") for side in _SIDES}
        self.max_positions = self._number("max_position_embeddings", 512)
        self.shared = bool(config.get("share_encoder_decoder_embeddings", True))
        self.tied_output = bool(config.get("tie_word_embeddings", True))
        source = self._number("vocab_size")
        target = source if self.shared else self._number("decoder_vocab_size", source)
        self.vocabulary_sizes = (source, target)

    def _number(self, name: str, default: int | None = None) -> int:
        value = self._config.get(name)
        value = default if value is None else value
        if type(value) is not int or value < 1:
            raise ConvertError(f"{self._file}: {name}: expected a number above 0, got {value!r}")
        return value

    @property
    def embeddings(self) -> str:
        """Our ``model.embeddings``."""
        if not self.tied_output:
            return "untied"
        return "tied" if self.shared else "decoder"

    def settings(self) -> dict[str, Any]:
        """Return our fields of the network, without those of its positions."""
        encoder, decoder = _SIDES
        values = {
            "encoder_layers": self.layers[encoder],
            "decoder_layers": self.layers[decoder],
            "d_model": self.d_model,
            "heads": self.heads[encoder],
            "decoder_heads": _if_other(self.heads),
            "d_ff": self.d_ff[encoder],
            "decoder_d_ff": _if_other(self.d_ff),
            "activation": self.activation,
            "embeddings": self.embeddings,
            "scale_embeddings": bool(self._config.get("scale_embedding", False)),
            "attention_bias": True,
            "output_bias": True,
            "layer_norm_epsilon": EPSILON,
        }
        settings = {f"model.{name}": value for name, value in values.items()}
        for theirs, ours in _DROPOUTS.items():
            value = self._config.get(theirs)
            if isinstance(value, int | float):
                settings[ours] = float(value)
        return settings

    def weights(self, tensors: Tensors, source: VocabularyRows, target: VocabularyRows) -> Weights:
        """Return the weights by our paths, after `position_tables`.

        Args:
            tensors: The checkpoint.
            source: Rows of the source vocabulary.
            target: Rows of the target vocabulary.

        Raises:
            ConvertError: A tensor is missing, left over, or does not fit.
        """
        weights = self._embedding_weights(tensors, source, target)
        for side in _SIDES:
            for layer in range(self.layers[side]):
                weights |= fairseq_layer(
                    tensors,
                    f"model.{side}.layers.{layer}",
                    self.d_model,
                    self.d_ff[side],
                    f"{side}/layers/{layer}",
                    decoder=side == "decoder",
                )
        tensors.check_all_used()
        return weights

    def position_tables(self, tensors: Tensors) -> dict[str, np.ndarray]:
        """Return the tables of positions in the checkpoint by our paths.

        Hugging Face reads the tables of earlier checkpoints, and computes those of later ones,
        which have none.
        """
        return {
            f"{ours}_positions/table": tensors.take(name, (None, self.d_model))
            for ours, theirs in (("source", "encoder"), ("target", "decoder"))
            if (name := f"model.{theirs}.embed_positions.weight") in tensors
        }

    def _embedding_weights(
        self, tensors: Tensors, source: VocabularyRows, target: VocabularyRows
    ) -> Weights:
        encoder, decoder = (f"model.{side}.embed_tokens.weight" for side in _SIDES)
        output = ["lm_head.weight"] if self.tied_output else []
        candidates = [[encoder], [decoder, *output]]
        if self.shared:
            candidates = [[_SHARED, encoder, decoder, *output]] * 2
        names = [next((name for name in each if name in tensors), each[0]) for each in candidates]
        width = self.d_model
        matrices = [
            tensors.take(name, (rows.size, width))
            for name, rows in zip(names, (source, target), strict=True)
        ]
        tensors.take_copies(candidates[1], names[1])
        bias = tensors.take("final_logits_bias", (1, target.size))[0]
        if self.embeddings == "tied":
            return {
                "embedding/matrix": target.embedding(matrices[1]),
                "embedding/output_bias": target.output_bias(bias),
            }
        weights = {
            "source_embedding/matrix": source.embedding(matrices[0]),
            "target_embedding/matrix": target.embedding(matrices[1]),
        }
        if self.embeddings == "decoder":
            return weights | {"target_embedding/output_bias": target.output_bias(bias)}
        projection = tensors.take("lm_head.weight", (target.size, width))
        return weights | {
            "projection/matrix": target.projection(projection),
            "projection/output_bias": target.output_bias(bias),
        }


def _if_other(sides: dict[str, int]) -> int:
    """Return the decoder's value where it is not the encoder's, else 0."""
    return sides["decoder"] if sides["decoder"] != sides["encoder"] else 0
