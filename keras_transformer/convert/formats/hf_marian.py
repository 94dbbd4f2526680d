"""Hugging Face MarianMT, such as the OPUS-MT models there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.foreign_tokenizer import (
    ForeignTokenizer,
    Vocabulary,
    from_sentencepiece,
)
from keras_transformer.convert.hf_generation import search_settings
from keras_transformer.convert.hf_marian_network import HfMarianNetwork
from keras_transformer.convert.readers import json_file
from keras_transformer.convert.readers.limits import read_bytes
from keras_transformer.convert.readers.safetensors_file import SafetensorsFile
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.sinusoids import find_rates
from keras_transformer.convert.tensors import Tensors

NAME = "hf_marian"
DESCRIPTION = "Hugging Face MarianMT, such as OPUS-MT: a folder with config.json"
OPTIONS = frozenset({"position_rates", "stored_positions", "preprocess"})

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def recognises(source: Path) -> bool:
    """Return whether a folder's config.json has the model_type marian."""
    config = source / "config.json"
    if not config.is_file():
        return False
    try:
        return json_file.read_object(config).get("model_type") == "marian"
    except ConvertError:
        return False


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model; see `Format`."""
    if not source.is_dir():
        raise ConvertError(f"{source}: expected the folder with config.json, got a file")
    config = json_file.read_object(source / "config.json")
    if config.get("model_type") != "marian":
        raise ConvertError(
            f"{source / 'config.json'}: model_type: expected 'marian', got "
            f"{config.get('model_type')!r}"
        )
    network = HfMarianNetwork(config, source / "config.json")
    tokenizer = _tokenizer(source, config, network, settings.preprocess)
    tensors = _tensors(source)
    tables = network.position_tables(tensors)
    positions, position_notes = _positions(tables, settings, tensors.file)
    weights = network.weights(tensors, tokenizer.source, tokenizer.target)
    search, notes = search_settings(
        _generation_options(source, config), tokenizer.target_tokens, network.max_positions
    )
    if settings.stored_positions:
        weights |= tables
    return ForeignModel(
        format=NAME,
        settings={
            **network.settings(),
            **search,
            **tokenizer.settings,
            **positions,
            "data.max_tokens": network.max_positions,
            **_languages(source),
        },
        weights=weights,
        tokenizer=tokenizer.tokenizer,
        notes=[*tokenizer.notes, *position_notes, *notes],
    )


def _positions(
    tables: dict[str, np.ndarray], settings: ConvertSettings, file: str
) -> tuple[dict[str, Any], list[str]]:
    """Return our fields of the positions, and notes.

    Raises:
        ConvertError: The tables hold other numbers than sinusoids, such as trained ones, and
            ``stored_positions`` is not set; or it is set, and there are none.
    """
    if settings.stored_positions:
        lengths = {len(table) for table in tables.values()}
        if len(tables) < len(("source", "target")) or len(lengths) > 1:
            raise ConvertError(f"{file}: stored_positions: expected two tables, got {len(tables)}")
        return {"model.positions": "learned", "model.max_positions": lengths.pop()}, []
    try:
        found = {find_rates(table, file, "embed_positions.weight") for table in tables.values()}
    except ConvertError as error:
        raise ConvertError(f"{error}; --stored_positions true takes them as they are") from None
    if len(found) > 1:
        raise ConvertError(f"{file}: expected the same positions on both sides, got two kinds")
    notes = []
    if any(table.dtype == np.float16 for table in tables.values()):
        notes.append(
            "positions: Hugging Face reads sinusoids rounded to float16, the run computes them; "
            "log-probabilities of tokens may differ by 0.001; --stored_positions true takes the "
            "rounded ones"
        )
    stored = found.pop() if found else "paper"
    rates = settings.position_rates or stored
    if rates == "paper":
        notes.append(
            "positions: with the paper's rates, as Hugging Face computes; Marian trains with those "
            "of tensor2tensor, which --position_rates tensor2tensor takes"
        )
    elif stored == "paper":
        notes.append(
            "positions: with tensor2tensor's rates, as in Marian; Hugging Face computes with the "
            "paper's, so its scores differ"
        )
    return {"model.position_layout": "halves", "model.position_rates": rates}, notes


def _tokenizer(
    source: Path, config: dict[str, Any], network: HfMarianNetwork, preprocess: str
) -> ForeignTokenizer:
    file, target_file = source / "vocab.json", source / "target_vocab.json"
    vocabulary = _vocabulary(file, config, network.vocabulary_sizes[0])
    if not network.shared and target_file.is_file():
        target = _vocabulary(target_file, config, network.vocabulary_sizes[1])
    else:
        target = vocabulary
    models = (read_bytes(source / "source.spm"), read_bytes(source / "target.spm"))
    return from_sentencepiece(models, vocabulary, target, preprocess)


def _vocabulary(file: Path, config: dict[str, Any], size: int) -> Vocabulary:
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

    ids = json_file.read_vocabulary(file)
    if len(ids) != size:
        raise ConvertError(
            f"{file}: expected {size} tokens, as many as config.json says, got {len(ids)}"
        )
    end = _token_id(config, "eos_token_id", size, ids.get("</s>"))
    pad = _token_id(config, "pad_token_id", size, ids.get("<pad>"))
    start = _token_id(config, "decoder_start_token_id", size, pad)
    if "<unk>" not in ids:
        raise ConvertError(f"{file}: expected a token <unk>, found none")
    return Vocabulary(ids, SpecialIds(pad=pad, unknown=ids["<unk>"], start=start, end=end))


def _token_id(config: dict[str, Any], name: str, size: int, default: int | None) -> int:
    value = config.get(name)
    value = default if value is None else value
    if type(value) is not int or not 0 <= value < size:
        raise ConvertError(f"config.json: {name}: expected 0 to {size - 1}, got {value!r}")
    return value


def _tensors(source: Path) -> Tensors:
    found = [source / name for name in _WEIGHTS if (source / name).is_file()]
    if not found:
        raise ConvertError(f"{source}: expected {' or '.join(_WEIGHTS)}, found neither")
    if found[0].suffix == ".safetensors":
        return Tensors(SafetensorsFile(found[0]), found[0])
    from keras_transformer.convert.readers import torch_file

    return Tensors(torch_file.TorchTensors(torch_file.load(found[0])), found[0])


def _generation_options(source: Path, config: dict[str, Any]) -> dict[str, Any]:
    file = source / "generation_config.json"
    return json_file.read_object(file) if file.is_file() else config


def _languages(source: Path) -> dict[str, str]:
    """Return the languages that tokenizer_config.json names, without tags such as >>deu<<."""
    file = source / "tokenizer_config.json"
    values = json_file.read_object(file) if file.is_file() else {}
    found = {}
    for ours, theirs in (("data.source", "source_lang"), ("data.target", "target_lang")):
        name = values.get(theirs)
        if isinstance(name, str) and re.fullmatch(r"[A-Za-z]{2,3}([_-][A-Za-z]+)*", name):
            found[ours] = name
    return found
