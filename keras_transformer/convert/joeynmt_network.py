"""Transformer of JoeyNMT, version 1 or 2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.convert import checks
from keras_transformer.convert.embedding_weights import embedding_weights
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.stacks import Stack, stack_facts, stack_settings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.torch_layers import attention, layer_norm, linear
from keras_transformer.convert.vocabulary_rows import VocabularyRows

Weights = dict[str, np.ndarray]

EPSILON = 1e-6
SOURCE, TARGET = "src_embed.lut.weight", "trg_embed.lut.weight"
_OUTPUT = "decoder.output_layer.weight"
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
_PROJECTIONS = {
    "query": "q_layer",
    "key": "k_layer",
    "value": "v_layer",
    "output": "output_layer",
}
_ATTENTIONS = {
    "encoder": {"self_attention": ("src_src_att", "layer_norm")},
    "decoder": {
        "self_attention": ("trg_trg_att", "x_layer_norm"),
        "cross_attention": ("src_trg_att", "dec_layer_norm"),
    },
}
_DEFAULT_HEADS = {"encoder": 4, "decoder": 8}


class JoeyNetwork:
    """A Transformer described by the section ``model`` of a configuration.

    Args:
        model: The section.
        tensors: The checkpoint.
        file: The configuration, for messages.

    Raises:
        ConvertError: A part of it cannot be converted.
    """

    def __init__(self, model: Mapping[str, Any], tensors: Tensors, file: object) -> None:
        self._file = file
        self._tensors = tensors
        self._sections = {side: self._section(model, side) for side in _ATTENTIONS}
        self.d_model = tensors.shape(SOURCE)[-1]
        self.stacks = {side: self._stack(side) for side in _ATTENTIONS}
        activations = {
            checks.choose(
                file, f"model.{side}.activation", section.get("activation", "relu"), _ACTIVATIONS
            )
            for side, section in self._sections.items()
        }
        if len(activations) > 1:
            raise ConvertError(
                f"{file}: activation: expected the same on both sides, got "
                f"{' and '.join(sorted(activations))}"
            )
        self.activation = activations.pop()

    def _section(self, model: Mapping[str, Any], side: str) -> Mapping[str, Any]:
        section = model.get(side)
        if not isinstance(section, dict):
            raise ConvertError(f"{self._file}: expected model.{side}, found none")
        default = "recurrent" if side == "encoder" else "transformer"
        kind = section.get("type", default)
        if kind != "transformer":
            raise ConvertError(f"{self._file}: model.{side}.type: expected transformer, got {kind}")
        if section.get("alpha", 1.0) != 1.0:
            raise ConvertError(
                f"{self._file}: model.{side}.alpha {section['alpha']}: weighted residual "
                "connections cannot be converted"
            )
        return section

    def _stack(self, side: str) -> Stack:
        section, tensors = self._sections[side], self._tensors
        names = re.compile(rf"{side}\.layers\.(\d+)\.")
        found = {int(match[1]) for match in map(names.match, tensors) if match}
        if not found or found != set(range(len(found))):
            raise ConvertError(
                f"{tensors.file}: expected {side} layers from 0 on, found {sorted(found)}"
            )
        heads = section.get("num_heads", _DEFAULT_HEADS[side])
        if type(heads) is not int or heads < 1 or self.d_model % heads:
            raise ConvertError(
                f"{self._file}: model.{side}.num_heads: expected a divisor of {self.d_model}, got "
                f"{heads!r}"
            )
        final_norm = f"{side}.layer_norm.weight" in tensors
        return Stack(
            layers=len(found),
            heads=heads,
            d_ff=tensors.shape(f"{side}.layers.0.feed_forward.pwff_layer.0.weight")[0],
            pre=self._is_pre(side, section, final_norm),
            final_norm=final_norm,
        )

    def _is_pre(self, side: str, section: Mapping[str, Any], final_norm: bool) -> bool:
        """Return whether normalization comes first.

        Without layer_norm in the configuration, version 1 has it first, with a final one. Version
        2 has it first in the encoder, without a final one, and last in the decoder.
        """
        value = section.get("layer_norm")
        if value is None:
            return final_norm or side == "encoder"
        if value not in ("pre", "post"):
            raise ConvertError(
                f"{self._file}: model.{side}.layer_norm: expected pre or post, got {value!r}"
            )
        return value == "pre"

    def settings(self) -> dict[str, Any]:
        """Return our fields of the network, but those of `weights`."""
        settings: dict[str, Any] = {
            **stack_settings(self.d_model, self.stacks["encoder"], self.stacks["decoder"]),
            "model.activation": self.activation,
            "model.attention_bias": True,
            "model.layer_norm_epsilon": EPSILON,
            "data.max_tokens": 1024,
        }
        dropout = self._sections["encoder"].get("dropout")
        if isinstance(dropout, int | float) and 0 <= dropout < 1:
            names = ("dropout", "attention_dropout", "feed_forward_dropout")
            settings |= {f"model.{name}": float(dropout) for name in names}
        return settings

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
                name, path = f"{side}.layer_norm", f"{side}/final_norm"
                weights |= layer_norm(self._tensors, name, self.d_model, path)
        self._tensors.ignore(lambda name: name.endswith(".pe.pe"))
        self._tensors.check_all_used()
        return weights, settings

    def _embeddings(
        self, rows: tuple[VocabularyRows, VocabularyRows]
    ) -> tuple[Weights, dict[str, Any]]:
        source, target, projection = (
            self._tensors.take(name, (side.size, self.d_model))
            for name, side in zip((SOURCE, TARGET, _OUTPUT), (*rows, rows[1]), strict=True)
        )
        scaled = self._scaled()
        tied = np.array_equal(projection, target)
        same_rows = np.array_equal(rows[0].embedded, rows[1].embedded)
        if scaled[0] == scaled[1] and same_rows and np.array_equal(source, target):
            source = target
        scale = scaled[1]
        if scaled[0] != scale:
            # One field scales both sides: what the other side has goes into its rows.
            factor = np.float32(self.d_model**0.5)
            source = source * (factor if scaled[0] else 1 / factor)
        weights, settings = embedding_weights(
            source, target, None if tied else projection, None, rows
        )
        return weights, {**settings, "model.scale_embeddings": scale}

    def _scaled(self) -> tuple[bool, bool]:
        """Return whether the embeddings of source and target are scaled by sqrt(d_model)."""
        options = [self._sections[side].get("embeddings") for side in _ATTENTIONS]
        source, target = (
            bool(each.get("scale", False)) if isinstance(each, dict) else False for each in options
        )
        return source, target

    def _layer(self, side: str, layer: int) -> Weights:
        tensors, width = self._tensors, self.d_model
        name, path = f"{side}.layers.{layer}", f"{side}/layers/{layer}"
        weights: Weights = {}
        for ours, (theirs, norm) in _ATTENTIONS[side].items():
            weights |= attention(
                tensors, f"{name}.{theirs}", width, f"{path}/{ours}", names=_PROJECTIONS
            )
            normalization = f"{path}/{ours}_connection/normalization"
            weights |= layer_norm(tensors, f"{name}.{norm}", width, normalization)
        inner = self.stacks[side].d_ff
        block = f"{name}.feed_forward"
        for ours, number, shape in (("inner", 0, (width, inner)), ("outer", 3, (inner, width))):
            weights |= linear(
                tensors,
                f"{block}.pwff_layer.{number}",
                shape,
                f"{path}/feed_forward/{ours}",
                bias=True,
            )
        normalization = f"{path}/feed_forward_connection/normalization"
        return weights | layer_norm(tensors, f"{block}.layer_norm", width, normalization)
