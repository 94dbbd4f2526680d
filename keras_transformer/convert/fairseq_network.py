"""Transformer of fairseq: its options as fields of the configuration, and its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer.convert import checks
from keras_transformer.convert.embedding_weights import embedding_weights
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.fairseq_options import FairseqOptions
from keras_transformer.convert.stacks import Stack, stack_facts, stack_settings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.torch_layers import fairseq_layer, layer_norm
from keras_transformer.convert.vocabulary_rows import VocabularyRows

Weights = dict[str, np.ndarray]

EPSILON = 1e-5
"""Of layer normalization, PyTorch's default."""
FIRST_POSITION = 2
"""Positions follow the id of padding, 1."""
SINUSOIDS = {
    "model.position_layout": "halves",
    "model.position_rates": "tensor2tensor",
    "model.first_position": FIRST_POSITION,
}

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "swish": "silu",
    "silu": "silu",
}
_OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_DROPOUTS = {
    "dropout": "model.dropout",
    "attention_dropout": "model.attention_dropout",
    "activation_dropout": "model.feed_forward_dropout",
}


class UpgradedNames(Mapping[str, np.ndarray]):
    """Tensors of any fairseq version by the names of the current one.

    Args:
        tensors: The tensors as they are in the file.
    """

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        self._tensors = tensors
        self._places: dict[str, tuple[str, int | None]] = {}  # name: (old name, third)
        for old in tensors:
            for new, third in _new_names(old):
                self._places[new] = (old, third)

    def __getitem__(self, name: str) -> np.ndarray:
        old, third = self._places[name]
        value = self._tensors[old]
        return value if third is None else np.array_split(value, 3)[third]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _new_names(old: str) -> list[tuple[str, int | None]]:
    """Return the current names of a tensor, each with the third of it that it takes."""
    for kind in ("weight", "bias"):
        if old.endswith(f".in_proj_{kind}"):
            stem = old.removesuffix(f"in_proj_{kind}")
            return [(f"{stem}{name}_proj.{kind}", third) for third, name in enumerate("qkv")]
    parts = old.split(".")
    if len(parts) == 6 and parts[3] == "layer_norms" and parts[0] in _OLD_NORMS:
        names = _OLD_NORMS[parts[0]]
        if parts[4].isdecimal() and int(parts[4]) < len(names):
            return [(".".join([*parts[:3], names[int(parts[4])], parts[5]]), None)]
    if old == "decoder.embed_out":
        return [("decoder.output_projection.weight", None)]
    return [(old, None)]


class FairseqNetwork:
    """A Transformer of fairseq.

    Args:
        options: Its options.
        tensors: Its tensors, by the names of `UpgradedNames`.
        file: The file, for messages.

    Raises:
        ConvertError: A part of it cannot be converted.
    """

    def __init__(self, options: FairseqOptions, tensors: Tensors, file: object) -> None:
        self._options = options
        self._tensors = tensors
        self._file = file
        self.d_model = options.number("encoder_embed_dim")
        for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
            width = options(name, self.d_model)
            if width != self.d_model:
                raise ConvertError(
                    f"{file}: {name}: expected {self.d_model}, the encoder's width, got {width}"
                )
        given = options("activation_fn")
        self.activation = checks.choose(file, "activation_fn", given, ACTIVATIONS)
        self.stacks = {side: self._stack(side) for side in ("encoder", "decoder")}
        self.tied_output = bool(
            options("share_decoder_input_output_embed") or options("share_all_embeddings")
        )
        self.tied_sides = bool(options("share_all_embeddings") or options("merge_src_tgt_embed"))
        self.positions = self._positions()

    def _stack(self, side: str) -> Stack:
        options = self._options
        pre = bool(options(f"{side}_normalize_before", False))
        # Earlier versions did not normalize after the last layer.
        recent = self._version(side) >= (2 if side == "encoder" else 3)
        left_out = side == "decoder" and options("no_decoder_final_norm")
        encoder_d_ff = options("encoder_ffn_embed_dim")
        return Stack(
            layers=options.number(f"{side}_layers"),
            heads=options.number(f"{side}_attention_heads"),
            d_ff=options.number(f"{side}_ffn_embed_dim", encoder_d_ff),
            pre=pre,
            final_norm=pre and recent and not left_out,
        )

    def _version(self, side: str) -> float:
        name = f"{side}.version"
        return float(self._tensors.take(name, (1,))[0]) if name in self._tensors else 1.0

    def _positions(self) -> str:
        learned = {bool(self._options(f"{side}_learned_pos")) for side in self.stacks}
        if self._options("no_token_positional_embeddings"):
            return "none"
        if len(learned) == 2:
            raise ConvertError(
                f"{self._file}: expected learned positions on both sides or on none, got "
                "encoder_learned_pos and decoder_learned_pos of different value"
            )
        return "learned" if learned == {True} else "sinusoidal"

    def settings(self) -> dict[str, Any]:
        """Return our fields of the network, but those of `weights`."""
        options = self._options
        settings: dict[str, Any] = {
            **stack_settings(self.d_model, self.stacks["encoder"], self.stacks["decoder"]),
            "model.activation": self.activation,
            "model.attention_bias": True,
            "model.layer_norm_epsilon": EPSILON,
            "model.scale_embeddings": not options("no_scale_embedding"),
            "model.embedding_norm": bool(options("layernorm_embedding")),
            "model.positions": self.positions,
            "data.max_tokens": options.number("max_source_positions", 1024),
        }
        if self.positions == "sinusoidal":
            settings |= SINUSOIDS
        for theirs, ours in _DROPOUTS.items():
            value = options(theirs)
            if isinstance(value, int | float) and 0 <= value < 1:
                settings[ours] = float(value)
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
                name, path = f"{side}.layers.{layer}", f"{side}/layers/{layer}"
                weights |= fairseq_layer(
                    self._tensors, name, self.d_model, stack.d_ff, path, decoder=side == "decoder"
                )
            if stack.final_norm:
                name, path = f"{side}.layer_norm", f"{side}/final_norm"
                weights |= layer_norm(self._tensors, name, self.d_model, path)
            if self._options("layernorm_embedding"):
                name, path = f"{side}.layernorm_embedding", f"{_POSITIONS[side]}/normalization"
                weights |= layer_norm(self._tensors, name, self.d_model, path)
        if self.positions == "learned":
            tables = self._tables()
            weights |= tables
            length = min(len(table) for table in tables.values())
            settings |= {"model.max_positions": length, "data.max_tokens": length}
        self._tensors.ignore(_holds_no_weights)
        self._tensors.check_all_used()
        return weights, settings

    def _tables(self) -> Weights:
        """Return the learned positions, without the rows that padding shifts them by."""
        tables = {
            f"{path}/table": self._tensors.take(
                f"{side}.embed_positions.weight", (None, self.d_model)
            )[FIRST_POSITION:]
            for side, path in _POSITIONS.items()
        }
        length = min(len(table) for table in tables.values())
        return {path: table[:length] for path, table in tables.items()}

    def _embeddings(
        self, rows: tuple[VocabularyRows, VocabularyRows]
    ) -> tuple[Weights, dict[str, Any]]:
        tensors, width = self._tensors, self.d_model
        target = tensors.take("decoder.embed_tokens.weight", (rows[1].size, width))
        source = target
        encoder = "encoder.embed_tokens.weight"
        if self.tied_sides:
            tensors.take_copies([encoder], "decoder.embed_tokens.weight")
        else:
            source = tensors.take(encoder, (rows[0].size, width))
        output = "decoder.output_projection.weight"
        if self.tied_output:
            tensors.take_copies([output], "decoder.embed_tokens.weight")
            projection = None
        else:
            projection = tensors.take(output, (rows[1].size, width))
        return embedding_weights(source, target, projection, None, rows)


_POSITIONS = {"encoder": "source_positions", "decoder": "target_positions"}


def _holds_no_weights(name: str) -> bool:
    """Return whether a tensor is a version number or a table of sinusoids."""
    return name.endswith((".version", ".embed_positions._float_tensor", ".embed_positions.weights"))
