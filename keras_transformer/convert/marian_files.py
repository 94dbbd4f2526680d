"""Files of a Marian model: weights, settings of the decoder, vocabularies, SentencePiece models."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import json_file, yaml_file
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.readers.vocabulary import check_ids
from keras_transformer.convert.settings import ConvertSettings

SPECIAL = "special:model.yml"
"""The array of a Marian archive that describes the network."""

_SIDES = ("source", "target")


@dataclass(frozen=True)
class MarianFiles:
    """Files of a Marian model.

    Args:
        weights: The archive.
        decoder: Settings of marian-decoder; empty if there are none.
        vocabularies: Files of the source and the target vocabulary, perhaps the same.
        sentencepiece: SentencePiece models that cut the two sides; None: text comes cut already.
    """

    weights: Path
    decoder: dict[str, Any]
    vocabularies: tuple[Path, Path]
    sentencepiece: tuple[Path, Path] | None


def is_marian(path: Path) -> bool:
    """Return whether a file is a Marian archive, from the names in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{SPECIAL}.npy" in archive.NameToInfo
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def archives(folder: Path) -> list[Path]:
    """Return the Marian archives in a folder."""
    return [path for path in sorted(folder.glob("*.npz")) if path.is_file() and is_marian(path)]


def find(source: Path, settings: ConvertSettings) -> MarianFiles:
    """Return the files of a model.

    Args:
        source: The archive, or the folder of one.
        settings: May name the vocabularies.

    Raises:
        ConvertError: There is no archive or vocabulary, or there are several.
    """
    folder = source if source.is_dir() else source.parent
    decoder = _decoder_settings(source, folder)
    weights = _weights(source, folder, decoder)
    vocabularies = _vocabularies(folder, decoder, settings)
    return MarianFiles(weights, decoder, vocabularies, _sentencepiece(folder, vocabularies))


def _decoder_settings(source: Path, folder: Path) -> dict[str, Any]:
    if source.is_file():
        named = [source.with_name(f"{source.name}.decoder.yml"), folder / "decoder.yml"]
        found = [path for path in named if path.is_file()][:1]
    else:
        found = [path for path in [folder / "decoder.yml"] if path.is_file()]
        found = found or sorted(folder.glob("*.decoder.yml"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ConvertError(
            f"{folder}: expected settings of one decoder, found {names}; give the .npz file of "
            "one model as SOURCE"
        )
    return yaml_file.read_settings(found[0]) if found else {}


def _weights(source: Path, folder: Path, decoder: dict[str, Any]) -> Path:
    if source.is_file():
        if not is_marian(source):
            raise ConvertError(f"{source}: expected an archive with {SPECIAL}, found none in it")
        return source
    found = archives(folder)
    named = {Path(name).name for name in _texts(decoder.get("models"))}
    chosen = [path for path in found if path.name in named] or found
    if not chosen:
        raise ConvertError(f"{folder}: expected a .npz file with {SPECIAL}, found none")
    if len(chosen) > 1:
        names = ", ".join(path.name for path in chosen)
        raise ConvertError(
            f"{folder}: expected one model, found {names} (an ensemble cannot be converted); give "
            "one of these files as SOURCE"
        )
    return chosen[0]


def _vocabularies(
    folder: Path, decoder: dict[str, Any], settings: ConvertSettings
) -> tuple[Path, Path]:
    given = [settings.source_vocabulary, settings.target_vocabulary]
    if any(given):
        source, target = (Path(each or given[1 - side]) for side, each in enumerate(given))
        return source, target
    named = [folder / Path(name).name for name in _texts(decoder.get("vocabs"))]
    if len(named) > 2:
        raise ConvertError(
            f"{folder}: expected two vocabularies, got {len(named)}: a model with several "
            "encoders cannot be converted"
        )
    if not named:
        patterns = ("vocab.yml", "*vocab.yml", "vocab.spm", "*vocab.spm")
        found = next((hits for each in patterns if (hits := sorted(folder.glob(each)))), [])
        named = found if len(found) == 1 else []
    if not named:
        raise ConvertError(
            f"{folder}: expected decoder.yml with vocabs, or vocab.yml, found neither; add "
            "--source_vocabulary FILE and --target_vocabulary FILE"
        )
    return named[0], named[-1]


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _sentencepiece(folder: Path, vocabularies: tuple[Path, Path]) -> tuple[Path, Path] | None:
    if all(path.suffix == ".spm" for path in vocabularies):
        return vocabularies
    found = [folder / f"{side}.spm" for side in _SIDES]
    present = [path for path in found if path.is_file()]
    if len(present) == 1:
        missing = next(path for path in found if path not in present)
        raise ConvertError(f"{missing}: expected a SentencePiece model beside {present[0].name}")
    return (found[0], found[1]) if present else None


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return ids by token of a vocabulary: YAML, JSON, a SentencePiece model, or lines of text.

    Raises:
        ConvertError: It cannot be read, or is factored.
    """
    kind = path.suffix
    if kind == ".fsv":
        raise ConvertError(f"{path}: a factored vocabulary cannot be converted")
    if kind in (".yml", ".yaml"):
        return yaml_file.read_vocabulary(path)
    if kind == ".json":
        return json_file.read_vocabulary(path)
    if kind == ".spm":
        from keras_transformer.convert.sentencepiece_pieces import read_pieces

        return check_ids([(piece, row) for row, piece in enumerate(read_pieces(path))], path)
    lines = read_text(path).split("\n")
    if not lines[-1]:
        lines.pop()
    return check_ids([(line.rstrip("\r"), row) for row, line in enumerate(lines)], path)
