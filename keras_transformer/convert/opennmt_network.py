"""Transformer of OpenNMT-tf 2, described by the variables of its checkpoint."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from keras_transformer.convert.embedding_weights import embedding_weights
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.stacks import Stack, stack_facts, stack_settings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.vocabulary_rows import VocabularyRows

Weights = dict[str, np.ndarray]

EPSILON = 1e-3
"""Of layer normalization, Keras' default."""

SOURCE = "model/examples_inputter/features_inputter/embedding"
"""Source embeddings; those of both sides if they are shared."""
TARGET = "model/examples_inputter/labels_inputter/embedding"
_PROJECTION = "model/decoder/output_layer/kernel"
_BIAS = "model/decoder/output_layer/bias"
_KERNELS = {"query": "queries", "key": "keys", "value": "values", "output": "output"}
_ATTENTIONS = {
    "encoder": {"self_attention": "self_attention"},
    "decoder": {"self_attention": "self_attention", "cross_attention": "attention/0"},
}
_POSITIONS = {"encoder": "source_positions", "decoder": "target_positions"}


class OpenNmtNetwork:
    """A Transformer of OpenNMT-tf.

    Args:
        tensors: The checkpoint.
        heads: Attention heads, which the checkpoint does not hold.
        activation: Our name of the activation.

    Raises:
        ConvertError: It is not such a model, or a part of it cannot be converted.
    """

    def __init__(self, tensors: Tensors, heads: int, activation: str) -> None:
        self._tensors = tensors
        self.activation = activation
        check_names(tensors)
        self.d_model = tensors.shape(SOURCE)[-1]
        if self.d_model % heads:
            raise ConvertError(
                f"--heads: expected a divisor of the width {self.d_model}, got {heads}"
            )
        self.stacks = {side: self._stack(side, heads) for side in _ATTENTIONS}
        first = "model/encoder/layers/0/self_attention/layer/linear_queries/bias"
        self.attention_bias = first in tensors
        learned = {f"model/{side}/position_encoder/embedding" in tensors for side in self.stacks}
        self.learned = learned == {True}

    def _stack(self, side: str, heads: int) -> Stack:
        names = re.compile(rf"model/{side}/layers/(\d+)/")
        found = {int(match[1]) for match in map(names.match, self._tensors) if match}
        if not found or found != set(range(len(found))):
            raise ConvertError(
                f"{self._tensors.file}: expected {side} layers from 0 on, found {sorted(found)}"
            )
        inner = f"model/{side}/layers/0/ffn/layer/inner/kernel"
        return Stack(
            layers=len(found),
            heads=heads,
            d_ff=self._tensors.shape(inner)[-1],
            pre=f"model/{side}/layers/0/ffn/input_layer_norm/gamma" in self._tensors,
            final_norm=f"model/{side}/layer_norm/gamma" in self._tensors,
        )

    def settings(self) -> dict[str, Any]:
        """Return our fields of the network, but those of `weights`."""
        settings: dict[str, Any] = {
            **stack_settings(self.d_model, self.stacks["encoder"], self.stacks["decoder"]),
            "model.activation": self.activation,
            "model.attention_bias": self.attention_bias,
            "model.layer_norm_epsilon": EPSILON,
            "data.max_tokens": 1024,
        }
        if self.learned:
            return settings | {"model.positions": "learned"}
        return settings | {
            "model.position_layout": "halves",
            "model.position_rates": "tensor2tensor",
            "model.first_position": 1,
        }

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
                weights |= self._norm(f"model/{side}/layer_norm", f"{side}/final_norm")
        if self.learned:
            # Positions count from 1: row 0 is never used.
            tables = {
                f"{path}/table": self._tensors.take(
                    f"model/{side}/position_encoder/embedding", (None, self.d_model)
                )[1:]
                for side, path in _POSITIONS.items()
            }
            length = min(len(table) for table in tables.values())
            weights |= {path: table[:length] for path, table in tables.items()}
            settings |= {"model.max_positions": length, "data.max_tokens": length}
        self._tensors.check_all_used()
        return weights, settings

    def _embeddings(
        self, rows: tuple[VocabularyRows, VocabularyRows]
    ) -> tuple[Weights, dict[str, Any]]:
        tensors, width, size = self._tensors, self.d_model, rows[1].size
        source = tensors.take(SOURCE, (rows[0].size, width))
        target = tensors.take(TARGET, (size, width)) if TARGET in tensors else source
        projection = None
        if _PROJECTION in tensors:
            projection = tensors.take(_PROJECTION, (width, size)).T
        bias = tensors.take(_BIAS, (size,)) if _BIAS in tensors else None
        return embedding_weights(source, target, projection, bias, rows)

    def _layer(self, side: str, layer: int) -> Weights:
        name, path = f"model/{side}/layers/{layer}", f"{side}/layers/{layer}"
        order = "input" if self.stacks[side].pre else "output"
        weights: Weights = {}
        for ours, theirs in _ATTENTIONS[side].items():
            for kernel, linear in _KERNELS.items():
                weights |= self._dense(
                    f"{name}/{theirs}/layer/linear_{linear}",
                    (self.d_model, self.d_model),
                    f"{path}/{ours}/{kernel}",
                    self.attention_bias,
                )
            norm = f"{path}/{ours}_connection/normalization"
            weights |= self._norm(f"{name}/{theirs}/{order}_layer_norm", norm)
        width, inner = self.d_model, self.stacks[side].d_ff
        for kernel, shape in (("inner", (width, inner)), ("outer", (inner, width))):
            weights |= self._dense(
                f"{name}/ffn/layer/{kernel}", shape, f"{path}/feed_forward/{kernel}", True
            )
        norm = f"{path}/feed_forward_connection/normalization"
        return weights | self._norm(f"{name}/ffn/{order}_layer_norm", norm)

    def _dense(self, name: str, shape: tuple[int, int], path: str, bias: bool) -> Weights:
        weights = {f"{path}_kernel": self._tensors.take(f"{name}/kernel", shape)}
        if bias:
            weights[f"{path}_bias"] = self._tensors.take(f"{name}/bias", shape[1:])
        return weights

    def _norm(self, name: str, path: str) -> Weights:
        shape = (self.d_model,)
        return {
            f"{path}/{part}": self._tensors.take(f"{name}/{part}", shape)
            for part in ("gamma", "beta")
        }


def check_names(tensors: Tensors) -> None:
    """Refuse checkpoints of version 1, and models with parts that have no counterpart.

    Raises:
        ConvertError: Names the part, and the way.
    """
    names = list(tensors)
    if not any(name.startswith("model/") for name in names):
        raise ConvertError(
            f"{tensors.file}: expected variables model/..., as OpenNMT-tf 2 writes them, got "
            f"{', '.join(names[:3]) or 'none'}; a checkpoint of version 1 is upgraded when "
            "OpenNMT-tf 2 loads it: onmt-main --config C.yml --auto_config average_checkpoints "
            "--output_dir DIR --max_count 1"
        )
    if any("relative_position" in name for name in names):
        raise ConvertError(f"{tensors.file}: relative positions cannot be converted")
    if SOURCE not in tensors:
        raise ConvertError(
            f"{tensors.file}: expected one source of word embeddings ({SOURCE}), found none: "
            "several sources, characters or a language model cannot be converted"
        )
