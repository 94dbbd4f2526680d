"""A Transformer in NumPy, from the formulas: the reference for every option of the model.

It is written from the definitions alone, for one sentence pair at a time, in float64, and shares no
code with the package. Weights are named like those of the layers, by path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Choices:
    """The choices in which Transformers differ; (encoder, decoder) where sides may differ."""

    heads: tuple[int, int]
    pre_norm: tuple[bool, bool] = (False, False)
    final_norm: tuple[bool, bool] = (False, False)
    activation: str = "relu"
    epsilon: float = 1e-6
    positions: str = "sinusoidal"
    """sinusoidal, learned or none."""
    halves: bool = False
    last_rate: bool = False
    """Whether the last rate is 1 / 10000, as in tensor2tensor."""
    first_position: int = 0
    embedding_norm: bool = False
    scale: float = 1.0


def logits(weights: Weights, choices: Choices, source: list[int], target: list[int]) -> np.ndarray:
    """Return the logits (T, V) of target ids (T,), given source ids (S,), both without padding.

    Args:
        weights: Weights by path; biases that are missing are 0, tables are under ``source``,
            ``target`` and ``projection``.
        choices: The choices.
        source: Source ids.
        target: Target ids, start token first.
    """
    memory = _embed(weights, choices, "source", source)
    for layer in _layers(weights, "encoder"):
        memory = _encode(_Layer(layer, choices, 0), memory)
    memory = _final(weights, choices, "encoder", memory)
    output = _embed(weights, choices, "target", target)
    for layer in _layers(weights, "decoder"):
        output = _decode(_Layer(layer, choices, 1), output, memory)
    output = _final(weights, choices, "decoder", output)
    return output @ weights["projection"].T + weights.get("output_bias", 0.0)


def _encode(run: _Layer, x: np.ndarray) -> np.ndarray:
    x = run.around("self_attention", x, lambda y: run.attend("self_attention", y, y))
    return run.around("feed_forward", x, run.feed_forward)


def _decode(run: _Layer, x: np.ndarray, memory: np.ndarray) -> np.ndarray:
    past = np.tril(np.ones([len(x), len(x)], bool))
    x = run.around("self_attention", x, lambda y: run.attend("self_attention", y, y, past))
    x = run.around("cross_attention", x, lambda y: run.attend("cross_attention", y, memory))
    return run.around("feed_forward", x, run.feed_forward)


class _Layer:
    """One layer of a side: 0 the encoder, 1 the decoder."""

    def __init__(self, weights: Weights, choices: Choices, side: int) -> None:
        self.weights = weights
        self.choices = choices
        self.side = side

    def around(self, name: str, x: np.ndarray, sublayer: Function) -> np.ndarray:
        prefix = f"{name}_connection/normalization"
        gain, shift = self.weights[f"{prefix}/gamma"], self.weights[f"{prefix}/beta"]
        if self.choices.pre_norm[self.side]:
            return x + sublayer(layer_norm(x, gain, shift, self.choices.epsilon))
        return layer_norm(x + sublayer(x), gain, shift, self.choices.epsilon)

    def attend(
        self, name: str, x: np.ndarray, memory: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        q, k, v = (
            self._linear(f"{name}/{part}", y)
            for part, y in (("query", x), ("key", memory), ("value", memory))
        )
        heads = self.choices.heads[self.side]
        contexts = []
        for queries, keys, values in zip(
            *(np.split(part, heads, axis=1) for part in (q, k, v)), strict=True
        ):
            scores = queries @ keys.T / math.sqrt(keys.shape[1])
            if mask is not None:
                scores = np.where(mask, scores, -np.inf)
            exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
            contexts.append(exponentials / exponentials.sum(axis=1, keepdims=True) @ values)
        return self._linear(f"{name}/output", np.concatenate(contexts, axis=1))

    def feed_forward(self, x: np.ndarray) -> np.ndarray:
        inner = ACTIVATIONS[self.choices.activation](self._linear("feed_forward/inner", x))
        return self._linear("feed_forward/outer", inner)

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.weights[f"{name}_kernel"] + self.weights.get(f"{name}_bias", 0.0)


def layer_norm(x: np.ndarray, gain: Any, shift: Any, epsilon: float) -> np.ndarray:
    """Normalize rows (T, D)."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * gain + shift


def sinusoids(count: int, width: int, choices: Choices) -> np.ndarray:
    """Return the encodings (T, D) of ``count`` positions, number by number."""
    half = width // 2
    table = np.zeros([count, width])
    for row in range(count):
        for i in range(half):
            exponent = i / (half - 1 if choices.last_rate else half)
            angle = (choices.first_position + row) / 10000.0**exponent
            columns = (i, half + i) if choices.halves else (2 * i, 2 * i + 1)
            table[row, columns] = math.sin(angle), math.cos(angle)
    return table


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Function] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "silu": lambda x: x * _sigmoid(x),
}
"""Activations by name."""


def _embed(weights: Weights, choices: Choices, side: str, ids: list[int]) -> np.ndarray:
    x = weights[side][ids] * choices.scale
    if choices.positions == "sinusoidal":
        x = x + sinusoids(len(ids), x.shape[1], choices)
    elif choices.positions == "learned":
        x = x + weights[f"{side}_positions/table"][: len(ids)]
    if not choices.embedding_norm:
        return x
    prefix = f"{side}_positions/normalization"
    return layer_norm(x, weights[f"{prefix}/gamma"], weights[f"{prefix}/beta"], choices.epsilon)


def _layers(weights: Weights, side: str) -> list[Weights]:
    """Return the weights of each layer, without the beginning of their paths."""
    count = len({path.split("/")[2] for path in weights if path.startswith(f"{side}/layers/")})
    return [
        {
            path.removeprefix(prefix): value
            for path, value in weights.items()
            if path.startswith(prefix)
        }
        for prefix in (f"{side}/layers/{i}/" for i in range(count))
    ]


def _final(weights: Weights, choices: Choices, side: str, x: np.ndarray) -> np.ndarray:
    if not choices.final_norm[side == "decoder"]:
        return x
    prefix = f"{side}/final_norm"
    return layer_norm(x, weights[f"{prefix}/gamma"], weights[f"{prefix}/beta"], choices.epsilon)
