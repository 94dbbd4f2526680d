"""OpenNMT-tf 2: a checkpoint folder of a Transformer, with its vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.foreign_tokenizer import ForeignTokenizer
from keras_transformer.convert.opennmt_description import NAME as DESCRIPTION_FILE
from keras_transformer.convert.opennmt_description import Description, read_description
from keras_transformer.convert.opennmt_network import SOURCE, TARGET, OpenNmtNetwork, check_names
from keras_transformer.convert.readers import yaml_file
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.readers.tf_checkpoint import TfCheckpoint, find_prefix
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.token_vocabulary import (
    TokenList,
    find_sentencepiece,
    token_tokenizer,
)

NAME = "opennmt_tf"
DESCRIPTION = "OpenNMT-tf 2: a folder with checkpoint, ckpt-N.index and vocabularies"
OPTIONS = frozenset({"heads", "activation", "source_vocabulary", "target_vocabulary", "source_end"})

_SPECIAL = ("<blank>", "<s>", "</s>")
_UNKNOWN = "<unk>"


def recognises(source: Path) -> bool:
    """Return whether a folder has a checkpoint of TensorFlow."""
    if source.suffix == ".index":
        return True
    return (source / "checkpoint").is_file() and any(source.glob("*.index"))


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model; see `Format`."""
    prefix = find_prefix(source)
    folder = prefix.parent
    tensors = Tensors(TfCheckpoint(prefix), prefix)
    check_names(tensors)
    description = _description(folder)
    heads = settings.heads or description.heads
    if not heads:
        width = tensors.shape(SOURCE)[-1]
        raise ConvertError(
            f"{folder}: the number of attention heads is not in a checkpoint; give --heads N (8 of "
            f"TransformerBase, 16 of TransformerBig, 2 of TransformerTiny; the width is {width}), "
            f"or put {DESCRIPTION_FILE} beside it"
        )
    activation = settings.activation or description.activation
    network = OpenNmtNetwork(tensors, heads, activation or "relu")
    options = _run_options(folder)
    tokenizer = _tokenizer(folder, settings, options, tensors)
    weights, found = network.weights((tokenizer.source, tokenizer.target))
    source_end, notes = _source_end(settings, options, description)
    if not activation:
        notes.append("activation: relu, OpenNMT-tf's default; --activation takes another")
    search, search_notes = _search(options)
    return ForeignModel(
        format=NAME,
        settings={
            **network.settings(),
            **search,
            **tokenizer.settings,
            **found,
            "data.source_end": source_end,
        },
        weights=weights,
        tokenizer=tokenizer.tokenizer,
        notes=[*tokenizer.notes, *notes, *search_notes],
        facts=[description.model, *network.facts()] if description.model else network.facts(),
    )


def _description(folder: Path) -> Description:
    """Return the description beside a checkpoint, or in the folder above an average."""
    for place in (folder, folder.parent):
        if (place / DESCRIPTION_FILE).is_file():
            return read_description(place / DESCRIPTION_FILE)
    return Description()


def _run_options(folder: Path) -> Mapping[str, Any]:
    """Return the YAML settings of the run, if they are beside the checkpoint."""
    for path in sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")]):
        values = yaml_file.read_settings(path)
        if isinstance(values.get("data"), dict):
            return values
    return {}


def _section(options: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = options.get(name)
    return section if isinstance(section, dict) else {}


def _source_end(
    settings: ConvertSettings, options: Mapping[str, Any], description: Description
) -> tuple[bool, list[str]]:
    """Return whether sources end with the end token."""
    controls = _section(_section(options, "data"), "source_sequence_controls")
    if controls.get("start"):
        raise ConvertError(
            "source_sequence_controls: start true: sources that begin with a start token cannot be "
            "converted"
        )
    if settings.source_end:
        return settings.source_end == "yes", []
    if options or description.source_end:
        return bool(controls.get("end", description.source_end)), []
    return False, [
        "source: without end token, OpenNMT-tf's default; --source_end yes if the model was "
        "trained with source_sequence_controls end: true"
    ]


def _search(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return our fields of the search: the run's, or OpenNMT-tf's automatic ones."""
    params = _section(options, "params")
    notes = [
        f"search: {name} {params[name]} has no counterpart and is left out"
        for name in ("coverage_penalty", "decoding_subword_token", "sampling_topk")
        if params.get(name)
    ]
    alpha = params.get("length_penalty", 0)
    return {
        "search.beam": params.get("beam_width", 4),
        "search.length_penalty": "gnmt",
        "search.alpha": float(alpha) if isinstance(alpha, int | float) else 0.0,
        "search.max_factor": 0.0,
        "search.max_extra": params.get("maximum_decoding_length", 250),
        "search.min_length": params.get("minimum_decoding_length", 0),
        "search.allow_unknown": True,
    }, notes


def _tokenizer(
    folder: Path, settings: ConvertSettings, options: Mapping[str, Any], tensors: Tensors
) -> ForeignTokenizer:
    target_matrix = TARGET if TARGET in tensors else SOURCE
    sides = {}
    for side, matrix in (("source", SOURCE), ("target", target_matrix)):
        size = tensors.shape(matrix)[0]
        given = getattr(settings, f"{side}_vocabulary")
        configured = _section(options, "data").get(f"{side}_vocabulary")
        path = Path(given) if given else _find_vocabulary(folder, side, size, configured)
        sides[side] = read_vocabulary(path)
        sides[side].check_size(size, matrix)
    source, target = sides["source"], sides["target"]
    return token_tokenizer(source, target, find_sentencepiece(folder))


def _find_vocabulary(folder: Path, side: str, size: int, configured: Any) -> Path:
    """Return the vocabulary of a side: the configured one, or the only one that fits."""
    if isinstance(configured, str):
        path = folder / configured.replace("\\", "/").rpartition("/")[2]
        if path.is_file():
            return path
    places = (folder, folder.parent) if folder.name == "avg" else (folder,)
    candidates = [
        path
        for place in places
        for path in sorted(place.iterdir())
        if path.is_file() and "vocab" in path.name and path.suffix not in (".model", ".json")
    ]
    fitting = [path for path in candidates if len(_lines(path)) + 1 == size]
    shorts = ("src", "source") if side == "source" else ("tgt", "trg", "target")
    named = [path for path in fitting if any(short in path.name for short in shorts)]
    if len(named) == 1 or len(fitting) == 1:
        return (named if len(named) == 1 else fitting)[0]
    found = ", ".join(path.name for path in candidates[:5]) or "none"
    raise ConvertError(
        f"{folder}: expected the {side} vocabulary of {size - 1} lines, found {found}; name it "
        f"with --{side}_vocabulary"
    )


def _lines(path: Path) -> list[str]:
    lines = read_text(path).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_vocabulary(path: Path) -> TokenList:
    """Read a vocabulary: a token in each line; the unknown token follows the last one.

    Raises:
        ConvertError: It cannot be read, or does not begin with the special tokens.
    """
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

    tokens = _lines(path)
    if tuple(tokens[: len(_SPECIAL)]) != _SPECIAL:
        raise ConvertError(
            f"{path}: expected the lines {', '.join(_SPECIAL)} at the beginning, got "
            f"{', '.join(tokens[:3])}"
        )
    special = SpecialIds(pad=0, start=1, end=2, unknown=len(tokens))
    return TokenList([*tokens, _UNKNOWN], special, path)
