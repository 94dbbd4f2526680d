"""Transformer of CTranslate2, described by its variables."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from keras_transformer.convert.ctranslate2_variables import CTranslate2Variables
from keras_transformer.convert.embedding_weights import embedding_weights
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.stacks import Stack, stack_facts, stack_settings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.vocabulary_rows import VocabularyRows

Weights = dict[str, np.ndarray]

_ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 4: "gelu_sigmoid"}
_DEFAULT_HEADS = 8
_DEFAULT_EPSILON = 1e-5
_POSITIONS = {"encoder": "source_positions", "decoder": "target_positions"}
_TOLERANCE = 2e-3  # of tables in float16
_OLD_SCALE = "multiply_by_sqrt_depth"
TARGET = "decoder/embeddings/weight"
_PROJECTION = "decoder/projection/weight"
_BIAS = "decoder/projection/bias"


class CTranslate2Network:
    """A Transformer of CTranslate2.

    Args:
        variables: Its variables.
        epsilon: Epsilon of layer normalization; None: CTranslate2's default.
        heads: Attention heads; 0: those of the file.

    Raises:
        ConvertError: A part of it cannot be converted.
    """

    def __init__(
        self, variables: CTranslate2Variables, epsilon: float | None, heads: int = 0
    ) -> None:
        self._variables = variables
        self._tensors = Tensors(variables, variables.file)
        self.source = next(
            (
                name
                for name in ("encoder/embeddings/weight", "encoder/embeddings_0/weight")
                if name in variables
            ),
            "encoder/embeddings_0/weight",
        )
        """Name of the source embeddings."""
        self._epsilon = _DEFAULT_EPSILON if epsilon is None else epsilon
        if "encoder/embeddings_1/weight" in variables:
            raise ConvertError(f"{variables.file}: several sources cannot be converted")
        self.d_model = self.size(self.source)[1]
        self.stacks = {side: self._stack(side, heads) for side in _POSITIONS}
        self.d_key = self._d_key()
        activations = {int(variables.setting(side, "activation")) for side in _POSITIONS}
        if len(activations) > 1 or not activations <= _ACTIVATIONS.keys():
            raise ConvertError(
                f"{variables.file}: activation: expected one of {_ACTIVATIONS} on both sides, got "
                f"{sorted(activations)}"
            )
        self.activation = _ACTIVATIONS[activations.pop()]
        self.attention_bias = "encoder/layer_0/self_attention/linear_0/bias" in variables
        self.position_settings, self._table_length = self._positions()

    def size(self, name: str) -> tuple[int, ...]:
        """Return the shape of a weight."""
        return self._tensors.shape(name)

    @property
    def starts_from_zero(self) -> bool:
        """Whether the decoder starts with a vector of zeros."""
        return bool(self._variables.setting("decoder", "start_from_zero_embedding"))

    def _stack(self, side: str, heads: int) -> Stack:
        variables = self._variables
        names = re.compile(rf"{side}/layer_(\d+)/")
        found = {int(match[1]) for match in map(names.match, variables) if match}
        if not found or found != set(range(len(found))):
            raise ConvertError(
                f"{variables.file}: expected {side} layers from 0 on, found {sorted(found)}"
            )
        return Stack(
            layers=len(found),
            heads=heads or self._heads(side),
            d_ff=self.size(f"{side}/layer_0/ffn/linear_0/weight")[0],
            pre=bool(variables.setting(side, "pre_norm")),
            final_norm=f"{side}/layer_norm/gamma" in variables,
        )

    def _heads(self, side: str) -> int:
        count = self._variables.setting(side, "num_heads", _DEFAULT_HEADS)
        if count < 1 or count != int(count):
            raise ConvertError(
                f"{self._variables.file}: {side}/num_heads: expected a whole number, got {count:g}"
            )
        return int(count)

    def _d_key(self) -> int:
        """Return the width of a head, or 0 if it is the usual one."""
        widths = {
            int(self._variables.setting(f"{side}/layer_0/self_attention", "head_dim"))
            or self.d_model // self.stacks[side].heads
            for side in _POSITIONS
        }
        usual = self.d_model // self.stacks["encoder"].heads
        if len(widths) > 1 and any(
            self._variables.setting(f"{side}/layer_0/self_attention", "head_dim")
            for side in _POSITIONS
        ):
            raise ConvertError(f"{self._variables.file}: head_dim: expected one value, got several")
        return 0 if len(widths) > 1 or widths == {usual} else widths.pop()

    def _positions(self) -> tuple[dict[str, Any], int]:
        """Return our fields of the positions, and the length of learned tables."""
        tables = {
            side: self._variables[name]
            for side in _POSITIONS
            if (name := f"{side}/position_encodings/encodings") in self._variables
        }
        if not tables:  # computed by CTranslate2
            return _sinusoid_settings("halves", "tensor2tensor", 1), 0
        if len(tables) == 1:
            raise ConvertError(
                f"{self._variables.file}: expected position encodings on both sides or on none"
            )
        kinds = [_recognise(table.astype(np.float64)) for table in tables.values()]
        if kinds[0] != kinds[1]:
            raise ConvertError(
                f"{self._variables.file}: expected position encodings of one kind on both sides, "
                f"got {kinds[0]} and {kinds[1]}"
            )
        if kinds[0]["model.positions"] == "learned":
            length = min(len(table) for table in tables.values())
            kinds[0] |= {"model.max_positions": length, "data.max_tokens": length}
            return kinds[0], length
        return kinds[0], 0

    def settings(self) -> dict[str, Any]:
        """Return our fields of the network, but those of `weights`."""
        scales = {self._scale(side) for side in _POSITIONS}
        norms = {f"{side}/layernorm_embedding/gamma" in self._variables for side in _POSITIONS}
        if len(scales) > 1 or len(norms) > 1:
            raise ConvertError(
                f"{self._variables.file}: scale_embeddings and layernorm_embedding: expected the "
                "same on both sides"
            )
        return {
            **stack_settings(self.d_model, self.stacks["encoder"], self.stacks["decoder"]),
            "model.d_key": self.d_key,
            "model.d_value": self.d_key,
            "model.activation": self.activation,
            "model.attention_bias": self.attention_bias,
            "model.layer_norm_epsilon": self._epsilon,
            "model.scale_embeddings": scales.pop(),
            "model.embedding_norm": norms.pop(),
            "data.max_tokens": 1024,
            **self.position_settings,
        }

    def _scale(self, side: str) -> bool:
        variables = self._variables
        old = variables.setting(f"{side}/embeddings", _OLD_SCALE, 1)
        old = variables.setting(f"{side}/embeddings_0", _OLD_SCALE, old)
        value = variables.setting(side, "scale_embeddings", old)
        if value not in (0, 1):
            raise ConvertError(
                f"{variables.file}: {side}/scale_embeddings: expected 0 or 1, got {value:g}"
            )
        return bool(value)

    def facts(self) -> list[str]:
        """Return lines about the network."""
        return stack_facts(self.stacks["encoder"], self.stacks["decoder"], self.d_model)

    def weights(
        self, rows: tuple[VocabularyRows, VocabularyRows]
    ) -> tuple[Weights, dict[str, Any]]:
        """Return the weights by our paths, and fields that follow from them.

        Args:
            rows: Rows of the source and of the target vocabulary.

        Raises:
            ConvertError: A tensor is missing, left over, or does not fit.
        """
        weights, settings = self._embeddings(rows)
        for side, stack in self.stacks.items():
            for layer in range(stack.layers):
                weights |= self._layer(side, layer)
            if stack.final_norm:
                weights |= self._norm(f"{side}/layer_norm", f"{side}/final_norm")
            if f"{side}/layernorm_embedding/gamma" in self._variables:
                path = f"{_POSITIONS[side]}/normalization"
                weights |= self._norm(f"{side}/layernorm_embedding", path)
            if self._table_length:
                name = f"{side}/position_encodings/encodings"
                table = self._tensors.take(name, (None, self.d_model))
                weights[f"{_POSITIONS[side]}/table"] = table[: self._table_length]
        self._tensors.ignore(lambda name: name.endswith("/position_encodings/encodings"))
        self._tensors.check_all_used()
        return weights, settings

    def _embeddings(
        self, rows: tuple[VocabularyRows, VocabularyRows]
    ) -> tuple[Weights, dict[str, Any]]:
        tensors, width, size = self._tensors, self.d_model, rows[1].size
        source = tensors.take(self.source, (rows[0].size, width))
        target = tensors.take(TARGET, (size, width))
        projection = tensors.take(_PROJECTION, (size, width))
        bias = tensors.take(_BIAS, (size,)) if _BIAS in tensors else None
        # CTranslate2 stores equal matrices once, whether they are tied or not.
        tied = np.array_equal(projection, target)
        same_rows = np.array_equal(rows[0].embedded, rows[1].embedded)
        if tied and same_rows and np.array_equal(source, target):
            source = target
        return embedding_weights(source, target, None if tied else projection, bias, rows)

    def _layer(self, side: str, layer: int) -> Weights:
        name, path = f"{side}/layer_{layer}", f"{side}/layers/{layer}"
        width = self.d_model
        heads = (self.d_key or width // self.stacks[side].heads) * self.stacks[side].heads
        joint = ("query", "key", "value")
        weights = self._attention(
            f"{name}/self_attention", f"{path}/self_attention", [joint, ("output",)], heads
        )
        if side == "decoder":
            parts = [("query",), ("key", "value"), ("output",)]
            weights |= self._attention(f"{name}/attention", f"{path}/cross_attention", parts, heads)
        inner = self.stacks[side].d_ff
        ffn = f"{path}/feed_forward"
        weights |= self._linear(f"{name}/ffn/linear_0", (width, inner), [f"{ffn}/inner"], True)
        weights |= self._linear(f"{name}/ffn/linear_1", (inner, width), [f"{ffn}/outer"], True)
        norm = f"{path}/feed_forward_connection/normalization"
        return weights | self._norm(f"{name}/ffn/layer_norm", norm)

    def _attention(self, name: str, path: str, parts: list[tuple[str, ...]], heads: int) -> Weights:
        """Return an attention layer, some of whose kernels are joined in one matrix."""
        weights: Weights = {}
        for number, kernels in enumerate(parts):
            output = kernels == ("output",)
            shape = (heads, self.d_model) if output else (self.d_model, heads)
            paths = [f"{path}/{kernel}" for kernel in kernels]
            weights |= self._linear(f"{name}/linear_{number}", shape, paths, self.attention_bias)
        norm = f"{path}_connection/normalization"
        return weights | self._norm(f"{name}/layer_norm", norm)

    def _linear(self, name: str, shape: tuple[int, int], paths: list[str], bias: bool) -> Weights:
        """Return kernels (in, out) from a matrix (n * out, in)."""
        rows, count = shape[1] * len(paths), len(paths)
        matrix = self._tensors.take(f"{name}/weight", (rows, shape[0]))
        parts = np.split(matrix, count)
        weights = {f"{path}_kernel": part.T for path, part in zip(paths, parts, strict=True)}
        if bias:
            biases = np.split(self._tensors.take(f"{name}/bias", (rows,)), count)
            weights |= {f"{path}_bias": part for path, part in zip(paths, biases, strict=True)}
        return weights

    def _norm(self, name: str, path: str) -> Weights:
        if f"{name}/beta" not in self._variables and f"{name}/gamma" in self._variables:
            raise ConvertError(f"{self._variables.file}: {name}: RMSNorm cannot be converted")
        shape = (self.d_model,)
        return {
            f"{path}/{part}": self._tensors.take(f"{name}/{part}", shape)
            for part in ("gamma", "beta")
        }


def _sinusoid_settings(layout: str, rates: str, first: int) -> dict[str, Any]:
    return {
        "model.positions": "sinusoidal",
        "model.position_layout": layout,
        "model.position_rates": rates,
        "model.first_position": first,
    }


def _recognise(table: np.ndarray) -> dict[str, Any]:
    """Return our fields of a table (P, D) of position encodings."""
    if not table.any():
        return {"model.positions": "none"}
    half = table.shape[1] // 2
    for rates, divisor in (("paper", half), ("tensor2tensor", max(half - 1, 1))):
        for first in range(3):
            positions = np.arange(first, first + len(table))[:, None]
            angles = positions / 10_000.0 ** (np.arange(half) / divisor)  # (P, D / 2)
            waves = [np.sin(angles), np.cos(angles)]
            halves = np.concatenate(waves, axis=1)
            interleaved = np.stack(waves, axis=-1).reshape(table.shape)
            for layout, expected in (("halves", halves), ("interleaved", interleaved)):
                if np.allclose(table, expected, rtol=0, atol=_TOLERANCE):
                    return _sinusoid_settings(layout, rates, first)
    return {"model.positions": "learned"}
