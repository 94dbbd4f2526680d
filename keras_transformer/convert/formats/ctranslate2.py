"""CTranslate2: a folder with model.bin and vocabularies."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.convert import checks
from keras_transformer.convert.ctranslate2_network import TARGET, CTranslate2Network
from keras_transformer.convert.ctranslate2_variables import CTranslate2Variables
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.foreign_tokenizer import ForeignTokenizer
from keras_transformer.convert.readers import json_file
from keras_transformer.convert.readers.ctranslate2_file import CTranslate2File
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.token_vocabulary import (
    TokenList,
    find_sentencepiece,
    token_tokenizer,
)
from keras_transformer.convert.vocabulary_rows import NONE

if TYPE_CHECKING:
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

NAME = "ctranslate2"
DESCRIPTION = "CTranslate2: a folder with model.bin and vocabularies"
OPTIONS = frozenset({"heads", "dequantize"})

_KIND = "TransformerSpec"
_PADS = ("<blank>", "<pad>")
_DEFAULTS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}

SEARCH = {
    "search.beam": 2,
    "search.length_penalty": "power",
    "search.alpha": 1.0,
    "search.max_factor": 0.0,
    "search.max_extra": 256,
    "search.allow_unknown": True,
}
"""CTranslate2's defaults of ``translate_batch``; a model holds none."""


def recognises(source: Path) -> bool:
    """Return whether a folder has a model.bin that begins as one of CTranslate2."""
    path = source / "model.bin"
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(64)
    return start[4:6] == (len(_KIND) + 1).to_bytes(2, "little") and _KIND.encode() in start


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model; see `Format`."""
    folder = source if source.is_dir() else source.parent
    path = folder / "model.bin"
    file = CTranslate2File(path)
    if file.name != _KIND:
        raise ConvertError(f"{path}: expected an encoder and a decoder, {_KIND}, got {file.name}")
    variables = CTranslate2Variables(file, path, settings.dequantize)
    config = _config(folder)
    epsilon = config.get("layer_norm_epsilon")
    network = CTranslate2Network(variables, epsilon, settings.heads)
    tokenizer = _tokenizer(folder, config, network)
    weights, found = network.weights((tokenizer.source, tokenizer.target))
    notes = list(tokenizer.notes)
    if variables.quantized:
        notes.append(
            f"weights: {len(variables.quantized)} matrices were stored as integers; the model is "
            "that rounded one, not the trained one"
        )
    if epsilon is None:
        notes.append("layer normalization: epsilon 1e-5, as CTranslate2 computes it")
    if (folder / "vmap.txt").is_file():
        notes.append("vmap.txt, which limits the target vocabulary by sentence, is left out")
    notes.append("search: CTranslate2's defaults, beam 2 and length_penalty 1")
    return ForeignModel(
        format=NAME,
        settings={
            **network.settings(),
            **SEARCH,
            **tokenizer.settings,
            **found,
            "data.source_end": _source_end(config, variables),
        },
        weights=weights,
        tokenizer=tokenizer.tokenizer,
        notes=notes,
        facts=network.facts(),
    )


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / "config.json"
    return json_file.read_object(path) if path.is_file() else {}


def _source_end(config: Mapping[str, Any], variables: CTranslate2Variables) -> bool:
    """Return whether the end token is added to sources."""
    # Older files have settings among their variables instead.
    if config.get("add_source_bos", variables.setting("encoder", "with_source_bos")):
        raise ConvertError(
            f"{variables.file}: add_source_bos: sources that begin with a start token cannot be "
            "converted"
        )
    return bool(config.get("add_source_eos", variables.setting("encoder", "with_source_eos")))


def _tokenizer(
    folder: Path, config: Mapping[str, Any], network: CTranslate2Network
) -> ForeignTokenizer:
    shared = _read_tokens(folder, "shared_vocabulary")
    sides = []
    for side, matrix in (("source", network.source), ("target", TARGET)):
        found = shared or _read_tokens(folder, f"{side}_vocabulary")
        if found is None:
            raise ConvertError(
                f"{folder}: expected {side}_vocabulary or shared_vocabulary (.json or .txt), found "
                "neither"
            )
        path, tokens = found
        special = _special(path, tokens, config, network.starts_from_zero)
        vocabulary = TokenList(tokens, special, path)
        vocabulary.check_size(network.size(matrix)[0], matrix)
        sides.append(vocabulary)
    source, target = sides
    return token_tokenizer(source, target, find_sentencepiece(folder))


def _read_tokens(folder: Path, stem: str) -> tuple[Path, list[str]] | None:
    """Return a vocabulary, if its file is there."""
    path = folder / f"{stem}.json"
    if path.is_file():
        try:
            tokens = json.loads(read_text(path))
        except (ValueError, RecursionError):
            raise ConvertError(f"{path}: expected a list of tokens, got other data") from None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ConvertError(f"{path}: expected a list of tokens, got other data")
        return path, tokens
    path = folder / f"{stem}.txt"
    if path.is_file():
        return path, read_text(path).removesuffix("\n").split("\n")
    return None


def _special(
    path: Path, tokens: list[str], config: Mapping[str, Any], zero_start: bool
) -> SpecialIds:
    """Return the rows of the special tokens by their names in config.json."""
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

    names = {
        name: checks.text(path, name, config.get(name, default))
        for name, default in _DEFAULTS.items()
    }
    start = config.get("decoder_start_token", names["bos_token"])
    if start is None and not zero_start:
        raise ConvertError(
            f"{path}: decoder_start_token: expected a token, got null: a model whose target begins "
            "with a token of the request cannot be converted"
        )
    if start is not None:
        checks.text(path, "decoder_start_token", start)
    rows = {token: row for row, token in enumerate(tokens)}
    for name in ("unk_token", "eos_token"):
        if names[name] not in rows:
            raise ConvertError(f"{path}: expected the {name} {names[name]!r}, found none")
    if start not in rows and not zero_start:
        raise ConvertError(f"{path}: expected the decoder_start_token {start!r}, found none")
    special = SpecialIds(
        pad=next((rows[name] for name in _PADS if name in rows), NONE),
        unknown=rows[names["unk_token"]],
        start=NONE if zero_start else rows[start],
        end=rows[names["eos_token"]],
    )
    used = [number for number in dataclasses.astuple(special)[:2] if number != NONE]
    if len(set(used)) != len(used):
        raise ConvertError(f"{path}: expected padding and unknown to be two tokens")
    return special
