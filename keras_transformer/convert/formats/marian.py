"""Marian's own archives, alone or in the folder of an OPUS-MT release."""

from __future__ import annotations

import re
from pathlib import Path

from keras_transformer.convert import marian_files
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.foreign_tokenizer import (
    ForeignTokenizer,
    Vocabulary,
    from_sentencepiece,
    from_words,
)
from keras_transformer.convert.marian_files import MarianFiles
from keras_transformer.convert.marian_network import MarianNetwork
from keras_transformer.convert.marian_search import search_settings
from keras_transformer.convert.readers import yaml_file
from keras_transformer.convert.readers.limits import read_bytes
from keras_transformer.convert.readers.npz_file import NpzFile
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.tensors import Tensors

NAME = "marian"
DESCRIPTION = "Marian: a .npz file, or the unpacked folder of an OPUS-MT release"
OPTIONS = frozenset({"source_vocabulary", "target_vocabulary", "preprocess"})

_MAX_TOKENS = 512  # there is no limit in the network


def recognises(source: Path) -> bool:
    """Return whether a source is, or contains, an archive that describes its network."""
    if source.is_dir():
        return bool(marian_files.archives(source))
    return source.is_file() and marian_files.is_marian(source)


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model; see `Format`."""
    files = marian_files.find(source, settings)
    archive = NpzFile(files.weights)
    if marian_files.SPECIAL not in archive:
        raise ConvertError(f"{files.weights}: expected {marian_files.SPECIAL} in it, found none")
    description = archive[marian_files.SPECIAL].tobytes().rstrip(b"\0")
    network = MarianNetwork(yaml_file.parse_settings(description, files.weights), files.weights)
    tokenizer = _tokenizer(files, network, settings.preprocess)
    tensors = Tensors(archive, files.weights)
    weights = network.weights(tensors, tokenizer.source, tokenizer.target)
    search, notes = search_settings(files.decoder)
    fields = {**network.settings(), **search, **tokenizer.settings, "data.max_tokens": _MAX_TOKENS}
    if positions := network.positions(tensors):
        fields |= {
            "model.positions": "learned",
            "model.max_positions": positions,
            "model.scale_embeddings": False,
            "data.max_tokens": min(_MAX_TOKENS, positions),
        }
    if network.norm == "pre":
        notes.append(
            "pre-norm: marian-decoder does not normalize keys and values of decoder self-attention "
            "after the first position, unlike Marian's training; the run computes as in training"
        )
    return ForeignModel(
        format=NAME,
        settings=fields | _languages(files),
        weights=weights,
        tokenizer=tokenizer.tokenizer,
        notes=[*tokenizer.notes, *_text_notes(files, settings.preprocess), *notes],
    )


def _tokenizer(files: MarianFiles, network: MarianNetwork, preprocess: str) -> ForeignTokenizer:
    source_file, target_file = files.vocabularies
    source = _vocabulary(source_file, network.vocabulary_sizes[0])
    target = source
    if target_file != source_file:
        target = _vocabulary(target_file, network.vocabulary_sizes[1])
        if target.ids == source.ids:
            target = source
    if network.shared and target is not source:
        raise ConvertError(
            f"{target_file}: expected the tokens of {source_file}, whose embeddings it shares, "
            "got others"
        )
    if files.sentencepiece is None:
        if preprocess:
            raise ConvertError(
                f"--preprocess {preprocess}: expected a SentencePiece model beside "
                f"{files.weights}, found none; apply the script to the text"
            )
        return from_words(source, target)
    first, second = (read_bytes(path) for path in files.sentencepiece)
    return from_sentencepiece((first, second), source, target, preprocess)


def _vocabulary(file: Path, size: int) -> Vocabulary:
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

    ids = marian_files.read_vocabulary(file)
    if len(ids) != size:
        raise ConvertError(
            f"{file}: expected {size} tokens, as many as dim-vocabs says, got {len(ids)}"
        )
    missing = [token for token in ("</s>", "<unk>") if token not in ids]
    if missing:
        raise ConvertError(f"{file}: expected the tokens </s> and <unk>, found no {missing[0]}")
    return Vocabulary(ids, SpecialIds(unknown=ids["<unk>"], end=ids["</s>"]))


def _text_notes(files: MarianFiles, preprocess: str) -> list[str]:
    """Return the note on scripts that change text; its postprocess.sh joins pieces alone."""
    script = files.weights.parent / "preprocess.sh"
    if preprocess or not script.is_file() or files.sentencepiece is None:
        return []
    return [
        "text: the run does not apply preprocess.sh, which changes punctuation such as “ and ’; "
        "--preprocess opus does"
    ]


def _languages(files: MarianFiles) -> dict[str, str]:
    """Return the languages in the name of the folder, such as opus-mt-en-de."""
    found = re.search(r"(?:^|[^A-Za-z])([a-z]{2,3})-([a-z]{2,3})$", files.weights.parent.name)
    return {"data.source": found[1], "data.target": found[2]} if found else {}
