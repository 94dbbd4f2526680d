"""Hugging Face FSMT, its form of fairseq's models for WMT19."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.convert import checks
from keras_transformer.convert.embedding_weights import embedding_weights
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.fairseq_network import (
    ACTIVATIONS,
    EPSILON,
    FIRST_POSITION,
    SINUSOIDS,
)
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.foreign_tokenizer import CONTINUATION
from keras_transformer.convert.hf_generation import search_settings
from keras_transformer.convert.readers import json_file, torch_file
from keras_transformer.convert.readers.safetensors_file import SafetensorsFile
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.sinusoids import sinusoids
from keras_transformer.convert.stacks import Stack, stack_facts, stack_settings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.token_vocabulary import (
    TokenList,
    find_codes,
    token_tokenizer,
)
from keras_transformer.convert.torch_layers import fairseq_layer
from keras_transformer.convert.vocabulary_rows import VocabularyRows

NAME = "fsmt"
DESCRIPTION = "Hugging Face FSMT, fairseq's WMT19 models: a folder with config.json"
OPTIONS: frozenset[str] = frozenset()

_SIDES = ("encoder", "decoder")
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_POSITIONS = {"encoder": "source_positions", "decoder": "target_positions"}
_LEARNED = {"model.positions": "learned"}
_TOLERANCE = 2e-3  # of tables in float16
_WORD_END = "</w>"
_DROPOUTS = {
    "dropout": "model.dropout",
    "attention_dropout": "model.attention_dropout",
    "activation_dropout": "model.feed_forward_dropout",
}


def recognises(source: Path) -> bool:
    """Return whether a folder's config.json has the model_type fsmt."""
    try:
        return json_file.read_object(source / "config.json").get("model_type") == "fsmt"
    except ConvertError:
        return False


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model; see `Format`."""
    file = source / "config.json"
    config = json_file.read_object(file)
    if config.get("model_type") != "fsmt":
        raise ConvertError(f"{file}: model_type: expected 'fsmt', got {config.get('model_type')!r}")
    tensors = _tensors(source)
    tokenizer = token_tokenizer(*_token_lists(source, config, tensors), codes=find_codes(source))
    network = _Network(config, tensors, file)
    weights, found = network.weights((tokenizer.source, tokenizer.target))
    options = source / "generation_config.json"
    search, notes = search_settings(
        json_file.read_object(options) if options.is_file() else config,
        tokenizer.target_tokens,
        network.max_positions,
    )
    return ForeignModel(
        format=NAME,
        settings={
            **network.settings(),
            **search,
            **tokenizer.settings,
            **found,
            **_languages(config),
        },
        weights=weights,
        tokenizer=tokenizer.tokenizer,
        notes=[*tokenizer.notes, *notes],
        facts=stack_facts(network.stacks["encoder"], network.stacks["decoder"], network.d_model),
    )


def _tensors(source: Path) -> Tensors:
    safe, binary = source / "model.safetensors", source / "pytorch_model.bin"
    if safe.is_file():
        return Tensors(SafetensorsFile(safe), safe)
    if binary.is_file():
        return Tensors(torch_file.TorchTensors(torch_file.load(binary)), binary)
    raise ConvertError(f"{source}: expected {safe.name} or {binary.name}, found neither")


def _token_lists(
    source: Path, config: Mapping[str, Any], tensors: Tensors
) -> tuple[TokenList, TokenList]:
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

    names = {"pad_token_id": 1, "decoder_start_token_id": 2, "eos_token_id": 2}
    ids = {name: config.get(name, default) for name, default in names.items()}
    sides = []
    for side, name in zip(_SIDES, ("vocab-src.json", "vocab-tgt.json"), strict=True):
        tokens = list(json_file.read_vocabulary(source / name))
        for option, number in ids.items():
            if type(number) is not int or not 0 <= number < len(tokens):
                raise ConvertError(f"config.json: {option}: expected an id, got {number!r}")
        special = SpecialIds(
            ids["pad_token_id"],
            tokens.index("<unk>") if "<unk>" in tokens else -1,
            ids["decoder_start_token_id"],
            ids["eos_token_id"],
        )
        vocabulary = TokenList([_fairseq_form(token) for token in tokens], special, source / name)
        matrix = f"model.{side}.embed_tokens.weight"
        vocabulary.check_size(tensors.shape(matrix)[0], matrix)
        sides.append(vocabulary)
    return sides[0], sides[1]


def _fairseq_form(token: str) -> str:
    """Return a token as fairseq writes it: FSMT marks the ends of words instead."""
    if token in _SPECIAL:
        return token
    return token.removesuffix(_WORD_END) if token.endswith(_WORD_END) else token + CONTINUATION


def _languages(config: Mapping[str, Any]) -> dict[str, str]:
    names = config.get("langs")
    if isinstance(names, list) and len(names) == 2 and all(isinstance(name, str) for name in names):
        return {"data.source": names[0], "data.target": names[1]}
    return {}


class _Network:
    """A network described by a config.json."""

    def __init__(self, config: Mapping[str, Any], tensors: Tensors, file: Path) -> None:
        self._config = config
        self._tensors = tensors
        self._file = file
        given = config.get("activation_function", "relu")
        self.activation = checks.choose(file, "activation_function", given, ACTIVATIONS)
        self.d_model = self._number("d_model")
        self.max_positions = self._number("max_position_embeddings", 1024)
        self.stacks = {
            side: Stack(
                self._number(f"{side}_layers"),
                self._number(f"{side}_attention_heads"),
                self._number(f"{side}_ffn_dim"),
                pre=False,
                final_norm=False,
            )
            for side in _SIDES
        }

    def _number(self, name: str, default: int | None = None) -> int:
        return checks.whole_number(self._file, name, self._config.get(name, default))

    def settings(self) -> dict[str, Any]:
        """Return our fields of the network, but those of `weights`."""
        settings: dict[str, Any] = {
            **stack_settings(self.d_model, self.stacks["encoder"], self.stacks["decoder"]),
            **(_LEARNED if self._learned_positions() else SINUSOIDS),
            "model.activation": self.activation,
            "model.attention_bias": True,
            "model.layer_norm_epsilon": EPSILON,
            "model.scale_embeddings": bool(self._config.get("scale_embedding", True)),
            "data.max_tokens": self.max_positions,
        }
        for theirs, ours in _DROPOUTS.items():
            value = self._config.get(theirs)
            if isinstance(value, int | float) and 0 <= value < 1:
                settings[ours] = float(value)
        return settings

    def weights(
        self, rows: tuple[VocabularyRows, VocabularyRows]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the weights by our paths, and fields that follow from them."""
        tensors, width = self._tensors, self.d_model
        source, target = (
            tensors.take(f"model.{side}.embed_tokens.weight", (each.size, width))
            for side, each in zip(_SIDES, rows, strict=True)
        )
        name = "model.decoder.output_projection.weight"
        projection = tensors.take(name, (rows[1].size, width)) if name in tensors else target
        # FSMT ties its matrices whatever config.json says: compare them.
        if np.array_equal(source, target):
            source = target
        tied = np.array_equal(projection, target)
        weights, settings = embedding_weights(
            source, target, None if tied else projection, None, rows
        )
        for side, stack in self.stacks.items():
            for layer in range(stack.layers):
                name, path = f"model.{side}.layers.{layer}", f"{side}/layers/{layer}"
                weights |= fairseq_layer(
                    tensors, name, width, stack.d_ff, path, decoder=side == "decoder"
                )
        tables = self._learned_positions()
        weights |= tables
        if tables:
            length = min(len(table) for table in tables.values())
            settings |= {"model.max_positions": length, "data.max_tokens": length}
        tensors.ignore(lambda name: name.endswith(".embed_positions.weight"))
        tensors.check_all_used()
        return weights, settings

    def _learned_positions(self) -> dict[str, np.ndarray]:
        """Return the position tables, if they hold other numbers than sinusoids.

        Hugging Face stores them, and since version 5 a training changes them.
        """
        tables = {}
        for side, path in _POSITIONS.items():
            name = f"model.{side}.embed_positions.weight"
            if name in self._tensors:
                # The rows up to that of padding are never used.
                table = self._tensors.take(name, (None, self.d_model))[FIRST_POSITION:]
                tables[f"{path}/table"] = table
        if all(
            np.allclose(table, _sinusoids(*table.shape), rtol=0, atol=_TOLERANCE)
            for table in tables.values()
        ):
            return {}
        if len(tables) < len(_POSITIONS):
            raise ConvertError(
                f"{self._tensors.file}: expected learned positions on both sides, found them on one"
            )
        length = min(len(table) for table in tables.values())
        return {path: table[:length] for path, table in tables.items()}


def _sinusoids(positions: int, d_model: int) -> np.ndarray:
    return sinusoids(positions, d_model, "tensor2tensor", FIRST_POSITION)
