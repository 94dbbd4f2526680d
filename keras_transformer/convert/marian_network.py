"""Networks of Marian: the options that describe them, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.vocabulary_rows import VocabularyRows

Weights = dict[str, np.ndarray]

# Options with the values that can be converted; an option that a file lacks has the first.
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-tied-layers": ([], None),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-pool": (False,),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-postprocess-emb": ("d", "", "nd", "n"),
    "transformer-postprocess-top": ("", "n", "d", "nd", "dn"),
    "lemma-dim-emb": (0,),
    "ulr": (False,),
    "input-types": ([], ["sequence", "sequence"]),
}
_MEANINGS = {
    "rnn": "the decoder SSRU",
    "average-attention": "a decoder with average attention",
    "transformer-tied-layers": "layers that share weights",
    "lemma-dim-emb": "factored vocabularies",
    "input-types": "inputs other than two sequences",
}
# Around a sub-layer: d dropout, a addition, n layer normalization.
_NORMS = {("", "an"): "post", ("n", "a"): "pre"}
_ACTIVATIONS = {"swish": "silu", "relu": "relu", "gelu": "gelu_sigmoid"}
_DROPOUTS = {
    "transformer-dropout": "model.dropout",
    "transformer-dropout-attention": "model.attention_dropout",
    "transformer-dropout-ffn": "model.feed_forward_dropout",
}


class MarianNetwork:
    """A network described by the options in a Marian archive.

    Args:
        options: Contents of ``special:model.yml``.
        file: The archive, for messages.

    Raises:
        ConvertError: An option has a value that cannot be converted.
    """

    def __init__(self, options: Mapping[str, Any], file: object) -> None:
        self._options = options
        self._file = file
        for name, valid in _SUPPORTED.items():
            value = self._get(name, valid[0])
            if value not in valid:
                meaning = _MEANINGS.get(str(value), _MEANINGS.get(name, ""))
                raise ConvertError(
                    f"{file}: {name}: expected {_listed(valid)}, got {value!r}"
                    f"{f': {meaning} cannot be converted' if meaning else ''}"
                )
        self.d_model = self._number("dim-emb")
        self.layers = {"encoder": self._number("enc-depth"), "decoder": self._number("dec-depth")}
        d_ff = self._number("transformer-dim-ffn")
        decoder_d_ff = self._get("transformer-decoder-dim-ffn", 0) or d_ff
        self.d_ff = {"encoder": d_ff, "decoder": decoder_d_ff}
        self.norm = self._norm()
        self.final_norm = "n" in self._get("transformer-postprocess-top", "")
        self.embedding_norm = "n" in self._get("transformer-postprocess-emb", "d")
        self.trained_positions = bool(self._get("transformer-train-position-embeddings", False))
        self.vocabulary_sizes = self._sizes()
        tied = bool(self._get("tied-embeddings-all", False))
        self.shared = tied or bool(self._get("tied-embeddings-src", False))
        self.tied_output = tied or bool(self._get("tied-embeddings", False))
        self.output_bias = not self._get("output-omit-bias", False)

    def _get(self, name: str, default: Any) -> Any:
        return self._options.get(name, default)

    def _number(self, name: str) -> int:
        value = self._get(name, None)
        if type(value) is not int or value < 1:
            raise ConvertError(f"{self._file}: {name}: expected a number above 0, got {value!r}")
        return value

    def _norm(self) -> str:
        before, after = (
            str(self._get(f"transformer-{name}process", default)).replace("d", "")
            for name, default in (("pre", ""), ("post", "dan"))
        )
        if (before, after) not in _NORMS:
            raise ConvertError(
                f"{self._file}: transformer-preprocess and transformer-postprocess: expected '' "
                f"and 'dan', or 'n' and 'da', got {before!r} and {after!r} without dropout"
            )
        return _NORMS[before, after]

    def _sizes(self) -> tuple[int, int]:
        sizes = self._get("dim-vocabs", None)
        if not isinstance(sizes, list) or not all(type(size) is int for size in sizes):
            raise ConvertError(f"{self._file}: dim-vocabs: expected two numbers, got {sizes!r}")
        if len(sizes) != 2:
            raise ConvertError(
                f"{self._file}: dim-vocabs: expected two numbers, got {len(sizes)}: a model with "
                "several encoders cannot be converted"
            )
        return sizes[0], sizes[1]

    @property
    def embeddings(self) -> str:
        """Our ``model.embeddings``."""
        if not self.tied_output:
            return "untied"
        return "tied" if self.shared else "decoder"

    def settings(self) -> dict[str, Any]:
        """Return our fields of the network.

        Raises:
            ConvertError: The activation cannot be converted.
        """
        activation = str(self._get("transformer-ffn-activation", "swish"))
        if activation not in _ACTIVATIONS:
            raise ConvertError(
                f"{self._file}: transformer-ffn-activation: expected "
                f"{_listed(tuple(_ACTIVATIONS))}, got {activation!r}"
            )
        values = {
            "encoder_layers": self.layers["encoder"],
            "decoder_layers": self.layers["decoder"],
            "d_model": self.d_model,
            "heads": self._number("transformer-heads"),
            "d_ff": self.d_ff["encoder"],
            "decoder_d_ff": self.d_ff["decoder"] if len(set(self.d_ff.values())) > 1 else 0,
            "activation": _ACTIVATIONS[activation],
            "norm": self.norm,
            "final_norm": "both" if self.final_norm else "none",
            "embedding_norm": self.embedding_norm,
            "embeddings": self.embeddings,
            "attention_bias": True,
            "output_bias": True,
            "layer_norm_epsilon": 1e-6,
        }
        settings = {f"model.{name}": value for name, value in values.items()}
        if not self.trained_positions:
            settings |= {
                "model.position_layout": "halves",
                "model.position_rates": "tensor2tensor",
            }
        for theirs, ours in _DROPOUTS.items():
            if isinstance(self._get(theirs, None), int | float):
                settings[ours] = float(self._options[theirs])
        return settings

    def weights(self, tensors: Tensors, source: VocabularyRows, target: VocabularyRows) -> Weights:
        """Return the weights by our paths; ``settings`` has the fields that describe them.

        Args:
            tensors: The archive.
            source: Rows of the source vocabulary.
            target: Rows of the target vocabulary.

        Raises:
            ConvertError: A tensor is missing, left over, or does not fit.
        """
        weights = self._embedding_weights(tensors, source, target)
        for side in ("encoder", "decoder"):
            for layer in range(self.layers[side]):
                weights |= self._layer(tensors, side, layer)
            if self.final_norm:
                weights |= self._layer_norm(
                    tensors, f"{side}_top_ln_scale", f"{side}_top_ln_bias", f"{side}/final_norm"
                )
        tensors.ignore(lambda name: name.startswith("special:"))
        tensors.check_all_used()
        return weights

    def positions(self, tensors: Tensors) -> int:
        """Return the number of trained positions; 0 if there are sinusoids."""
        return tensors.shape("Wpos")[0] if self.trained_positions else 0

    def _embedding_weights(
        self, tensors: Tensors, source: VocabularyRows, target: VocabularyRows
    ) -> Weights:
        width = self.d_model
        names = ["Wemb", "Wemb"] if self.shared else ["encoder_Wemb", "decoder_Wemb"]
        matrices = [
            tensors.take(name, (rows.size, width))
            for name, rows in zip(names, (source, target), strict=True)
        ]
        projection = {"tied": "embedding", "decoder": "target_embedding"}.get(
            self.embeddings, "projection"
        )
        weights: Weights = {}
        if self.embeddings == "tied":
            weights["embedding/matrix"] = target.embedding(matrices[1])
        else:
            weights["source_embedding/matrix"] = source.embedding(matrices[0])
            weights["target_embedding/matrix"] = target.embedding(matrices[1])
        if self.embeddings == "untied":
            name = "decoder_ff_logit_out_W"
            if f"{name}t" in tensors:
                matrix = tensors.take(f"{name}t", (target.size, width))
            else:
                matrix = tensors.take(name, (width, target.size)).T
            weights["projection/matrix"] = target.projection(matrix)
        bias = None
        if self.output_bias:
            bias = tensors.take("decoder_ff_logit_out_b", (1, target.size))[0]
        weights[f"{projection}/output_bias"] = target.output_bias(bias)
        for ours, theirs in (("source", "encoder"), ("target", "decoder")):
            if self.trained_positions:
                weights[f"{ours}_positions/table"] = tensors.take("Wpos", (None, width))
            if self.embedding_norm:
                weights |= self._layer_norm(
                    tensors,
                    f"{theirs}_emb_ln_scale_pre",
                    f"{theirs}_emb_ln_bias_pre",
                    f"{ours}_positions/normalization",
                )
        return weights

    def _layer(self, tensors: Tensors, side: str, layer: int) -> Weights:
        theirs, ours = f"{side}_l{layer + 1}", f"{side}/layers/{layer}"
        width, inner = self.d_model, self.d_ff[side]
        attentions = {"self": "self_attention"}
        if side == "decoder":
            attentions["context"] = "cross_attention"
        weights: Weights = {}
        for name, path in attentions.items():
            for letter, role in zip("qkvo", ("query", "key", "value", "output"), strict=True):
                kernel = tensors.take(f"{theirs}_{name}_W{letter}", (width, width))
                bias = tensors.take(f"{theirs}_{name}_b{letter}", (1, width))
                weights[f"{ours}/{path}/{role}_kernel"] = kernel
                weights[f"{ours}/{path}/{role}_bias"] = bias[0]
            weights |= self._sublayer_norm(tensors, f"{theirs}_{name}_Wo", f"{ours}/{path}")
        for number, role, shape in ((1, "inner", (width, inner)), (2, "outer", (inner, width))):
            path = f"{ours}/feed_forward/{role}"
            weights[f"{path}_kernel"] = tensors.take(f"{theirs}_ffn_W{number}", shape)
            weights[f"{path}_bias"] = tensors.take(f"{theirs}_ffn_b{number}", (1, shape[1]))[0]
        return weights | self._sublayer_norm(tensors, f"{theirs}_ffn_ffn", f"{ours}/feed_forward")

    def _sublayer_norm(self, tensors: Tensors, theirs: str, ours: str) -> Weights:
        suffix = "_pre" if self.norm == "pre" else ""
        names = (f"{theirs}_ln_scale{suffix}", f"{theirs}_ln_bias{suffix}")
        return self._layer_norm(tensors, *names, f"{ours}_connection/normalization")

    def _layer_norm(self, tensors: Tensors, scale: str, bias: str, path: str) -> Weights:
        return {
            f"{path}/gamma": tensors.take(scale, (1, self.d_model))[0],
            f"{path}/beta": tensors.take(bias, (1, self.d_model))[0],
        }


def _listed(values: tuple[Any, ...]) -> str:
    return " or ".join(repr(value) for value in values)
