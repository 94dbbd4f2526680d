"""A Transformer in NumPy and float64, computed from converted settings and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.special_tokens import END, START

Array = np.ndarray

_erf = np.vectorize(math.erf, otypes=[float])
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu_sigmoid": lambda x: x / (1 + np.exp(-1.702 * x)),
}


class ReferenceNetwork:
    """The network of a converted model, one sentence at a time.

    Args:
        model: The converted model.
    """

    def __init__(self, model: ForeignModel) -> None:
        self._settings = model.settings
        self._weights = {name: value.astype(np.float64) for name, value in model.weights.items()}
        self._side = ""

    def log_probabilities(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Return the log-probability of each target token and of END, without START.

        Args:
            source: Our ids, without END.
            target: Our ids, without START and END.
        """
        logits = self.logits(source, [START, *target])  # (T, V)
        logits = logits - logits.max(axis=-1, keepdims=True)
        scores = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return scores[np.arange(len(target) + 1), [*target, END]]

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Return the logits (T, V) of each next token.

        Args:
            source: Our ids, without END.
            target: Our ids from START on.
        """
        ends = [END] if self._get("data.source_end", True) else []
        memory = self._stack("encoder", [*source, *ends], None)
        output = self._stack("decoder", target, memory)
        kind = self._get("model.embeddings", "tied")
        holder = {"tied": "embedding", "decoder": "target_embedding", "untied": "projection"}[kind]
        return output @ self._weights[f"{holder}/matrix"].T + self._weights.get(
            f"{holder}/output_bias", 0
        )

    def _get(self, name: str, default: Any) -> Any:
        return self._settings.get(name, default)

    def _stack(self, side: str, ids: Sequence[int], memory: Array | None) -> Array:
        norm = self._get("model.norm", "post")
        decoder_norm = self._get("model.decoder_norm", "same")
        if side == "decoder" and decoder_norm != "same":
            norm = decoder_norm
        heads = self._get("model.heads", 8)
        if side == "decoder":
            heads = self._get("model.decoder_heads", 0) or heads
        x = self._embed(side, ids)
        for layer in range(self._get(f"model.{side}_layers", 6)):
            path = f"{side}/layers/{layer}"
            x = self._connect(
                f"{path}/self_attention",
                x,
                norm,
                lambda y, path=f"{path}/self_attention": self._attend(
                    path, y, y, heads, causal=side == "decoder"
                ),
            )
            if memory is not None:
                x = self._connect(
                    f"{path}/cross_attention",
                    x,
                    norm,
                    lambda y, path=f"{path}/cross_attention": self._attend(path, y, memory, heads),
                )
            x = self._connect(
                f"{path}/feed_forward",
                x,
                norm,
                lambda y, path=f"{path}/feed_forward": self._feed_forward(path, y),
            )
        if f"{side}/final_norm/gamma" in self._weights:
            x = self._normalize(f"{side}/final_norm", x)
        return x

    def _embed(self, side: str, ids: Sequence[int]) -> Array:
        tied = self._get("model.embeddings", "tied") == "tied"
        name = (
            "embedding" if tied else {"encoder": "source_embedding"}.get(side, "target_embedding")
        )
        x = self._weights[f"{name}/matrix"][list(ids)]
        if self._get("model.scale_embeddings", True):
            x = x * math.sqrt(x.shape[1])
        layer = {"encoder": "source_positions", "decoder": "target_positions"}[side]
        x = x + self._positions(layer, *x.shape)
        if self._get("model.embedding_norm", False):
            x = self._normalize(f"{layer}/normalization", x)
        return x

    def _positions(self, layer: str, length: int, width: int) -> Array:
        kind = self._get("model.positions", "sinusoidal")
        if kind == "none":
            return np.zeros((length, width))
        if kind == "learned":
            return self._weights[f"{layer}/table"][:length]
        half = width // 2
        paper = self._get("model.position_rates", "paper") == "paper"
        first = self._get("model.first_position", 0)
        rates = 10_000.0 ** (-np.arange(half) / (half if paper else half - 1))
        angles = np.arange(first, first + length)[:, None] * rates
        waves = [np.sin(angles), np.cos(angles)]
        if self._get("model.position_layout", "interleaved") == "halves":
            return np.concatenate(waves, axis=1)
        return np.stack(waves, axis=-1).reshape(length, width)

    def _connect(self, path: str, x: Array, norm: str, sublayer: Any) -> Array:
        normalization = f"{path}_connection/normalization"
        if norm == "pre":
            return x + sublayer(self._normalize(normalization, x))
        return self._normalize(normalization, x + sublayer(x))

    def _normalize(self, path: str, x: Array) -> Array:
        deviation = x - x.mean(axis=-1, keepdims=True)
        variance = (deviation**2).mean(axis=-1, keepdims=True)
        scaled = deviation / np.sqrt(variance + self._get("model.layer_norm_epsilon", 1e-6))
        return scaled * self._weights[f"{path}/gamma"] + self._weights[f"{path}/beta"]

    def _attend(self, path: str, x: Array, y: Array, heads: int, causal: bool = False) -> Array:
        query, key, value = (
            self._project(f"{path}/{name}", z)
            .reshape(len(z), heads, -1)
            .swapaxes(0, 1)  # (H, T, K)
            for name, z in (("query", x), ("key", y), ("value", y))
        )
        scores = query @ key.swapaxes(1, 2) / math.sqrt(query.shape[-1])  # (H, T, S)
        if causal:
            scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -1e9)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        joined = (weights @ value).swapaxes(0, 1).reshape(len(x), -1)
        return self._project(f"{path}/output", joined)

    def _feed_forward(self, path: str, x: Array) -> Array:
        inner = self._project(f"{path}/inner", x)
        activation = ACTIVATIONS[self._get("model.activation", "relu")]
        return self._project(f"{path}/outer", activation(inner))

    def _project(self, path: str, x: Array) -> Array:
        return x @ self._weights[f"{path}_kernel"] + self._weights.get(f"{path}_bias", 0)


def expected_paths(model: ForeignModel) -> set[str]:
    """Return the paths of the weights that a converted model's settings ask for."""
    get: Mapping[str, Any] = model.settings
    sides = {"encoder": ["self_attention"], "decoder": ["self_attention", "cross_attention"]}
    paths = {
        "tied": {"embedding/matrix"},
        "decoder": {"source_embedding/matrix", "target_embedding/matrix"},
        "untied": {"source_embedding/matrix", "target_embedding/matrix", "projection/matrix"},
    }[get["model.embeddings"]]
    holder = {"tied": "embedding", "decoder": "target_embedding", "untied": "projection"}
    if get.get("model.output_bias"):
        paths = paths | {f"{holder[get['model.embeddings']]}/output_bias"}
    for side, attentions in sides.items():
        for layer in range(get[f"model.{side}_layers"]):
            path = f"{side}/layers/{layer}"
            for name in [*attentions, "feed_forward"]:
                norm = f"{path}/{name}_connection/normalization"
                paths = paths | {f"{norm}/gamma", f"{norm}/beta"}
            for name in attentions:
                kinds = ["kernel", "bias"] if get.get("model.attention_bias") else ["kernel"]
                kernels = ("query", "key", "value", "output")
                paths = paths | {f"{path}/{name}/{k}_{kind}" for k in kernels for kind in kinds}
            block = f"{path}/feed_forward"
            parts = ("inner_kernel", "inner_bias", "outer_kernel", "outer_bias")
            paths = paths | {f"{block}/{part}" for part in parts}
        norm = get["model.decoder_norm"] if side == "decoder" else "same"
        norm = get["model.norm"] if norm == "same" else norm
        final = get["model.final_norm"]
        if final in ("both", side) or (final == "auto" and norm == "pre"):
            paths = paths | {f"{side}/final_norm/gamma", f"{side}/final_norm/beta"}
        layer = {"encoder": "source_positions", "decoder": "target_positions"}[side]
        if get.get("model.positions") == "learned":
            paths = paths | {f"{layer}/table"}
        if get.get("model.embedding_norm"):
            paths = paths | {f"{layer}/normalization/gamma", f"{layer}/normalization/beta"}
    return paths
