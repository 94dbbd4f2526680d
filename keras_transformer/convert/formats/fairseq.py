"""fairseq: a checkpoint of a Transformer, with the dictionaries beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.fairseq_network import FairseqNetwork, UpgradedNames
from keras_transformer.convert.fairseq_options import FairseqOptions, is_record
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.foreign_tokenizer import ForeignTokenizer
from keras_transformer.convert.readers import torch_file
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.token_vocabulary import (
    TokenList,
    find_codes,
    find_sentencepiece,
    token_tokenizer,
)

NAME = "fairseq"
DESCRIPTION = "fairseq: model.pt with dict.XX.txt beside it"
OPTIONS = frozenset({"source_vocabulary", "target_vocabulary"})

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_OVERWRITE = " #fairseq:overwrite"
_BEST = "checkpoint_best.pt"

SEARCH = {
    "search.beam": 5,
    "search.length_penalty": "power",
    "search.alpha": 1.0,
    # Of fairseq-generate: 0 times the source and 200 tokens, then the end token.
    "search.max_factor": 0.0,
    "search.max_extra": 201,
    "search.allow_unknown": True,
}
"""fairseq's defaults; a checkpoint does not hold the values of its paper."""


def recognises(source: Path) -> bool:
    """Return whether there is a .pt file with a dictionary beside it."""
    folder = source if source.is_dir() else source.parent
    return bool(_checkpoints(source)) and bool(_dictionaries(folder))


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model; see `Format`."""
    file = _one_checkpoint(source)
    checkpoint = torch_file.load(file, is_record)
    if not isinstance(checkpoint, Mapping) or not isinstance(checkpoint.get("model"), Mapping):
        raise ConvertError(f"{file}: expected a checkpoint of fairseq with model, found none")
    options = FairseqOptions(checkpoint, file)
    tensors = Tensors(UpgradedNames(torch_file.TorchTensors(checkpoint["model"])), file)
    network = FairseqNetwork(options, tensors, file)
    languages = _languages(options)
    tokenizer = _tokenizer(file, settings, languages, network, tensors)
    weights, found = network.weights((tokenizer.source, tokenizer.target))
    return ForeignModel(
        format=NAME,
        settings={
            **network.settings(),
            **SEARCH,
            **tokenizer.settings,
            **found,
            **{f"data.{side}": name for side, name in languages.items() if name},
        },
        weights=weights,
        tokenizer=tokenizer.tokenizer,
        notes=[
            *tokenizer.notes,
            "search: fairseq's defaults, beam 5 and lenpen 1; a checkpoint does not hold others",
        ],
        facts=[f"arch {options.arch}", *network.facts()],
    )


def _checkpoints(source: Path) -> list[Path]:
    files = [source] if source.is_file() else sorted(source.glob("*.pt"))
    return [file for file in files if file.suffix == ".pt" and torch_file.is_torch_file(file)]


def _one_checkpoint(source: Path) -> Path:
    files = _checkpoints(source)
    best = [file for file in files if file.name == _BEST]
    if len(files) == 1 or best:
        return (best or files)[0]
    if not files:
        raise ConvertError(f"{source}: expected a .pt file of fairseq, found none")
    raise ConvertError(
        f"{source}: expected one model, got {', '.join(file.name for file in files[:5])}: an "
        "ensemble cannot be converted; name one of the files"
    )


def _dictionaries(folder: Path) -> list[Path]:
    return sorted(folder.glob("dict.*.txt"))


def _languages(options: FairseqOptions) -> dict[str, str]:
    names = {"source": options("source_lang"), "target": options("target_lang")}
    return {side: name if isinstance(name, str) else "" for side, name in names.items()}


def _tokenizer(
    file: Path,
    settings: ConvertSettings,
    languages: Mapping[str, str],
    network: FairseqNetwork,
    tensors: Tensors,
) -> ForeignTokenizer:
    paths = {
        side: _dictionary_path(file, side, name, getattr(settings, f"{side}_vocabulary"))
        for side, name in languages.items()
    }
    source = read_dictionary(paths["source"])
    target = read_dictionary(paths["target"])
    for side, vocabulary in (("encoder", source), ("decoder", target)):
        name = f"{side}.embed_tokens.weight"
        if name in tensors:  # not that of the encoder in some tied models
            vocabulary.check_size(tensors.shape(name)[0], name)
    models = find_sentencepiece(file.parent, languages["source"], languages["target"])
    return token_tokenizer(source, target, models, find_codes(file.parent))


def _dictionary_path(file: Path, side: str, language: str, given: str) -> Path:
    """Return the path of a side's dictionary."""
    if given:
        return Path(given)
    named = file.with_name(f"dict.{language}.txt")
    if language and "/" not in language and named.is_file():
        return named
    found = _dictionaries(file.parent)
    if len(found) == 1 and not language:
        return found[0]
    raise ConvertError(
        f"{file.parent}: expected the {side} dictionary {named.name if language else 'dict.XX.txt'}"
        f", found {', '.join(path.name for path in found[:5]) or 'none'}; name it with "
        f"--{side}_vocabulary"
    )


def read_dictionary(path: Path) -> TokenList:
    """Read a dictionary: a token and its count in each line, behind four special tokens.

    Raises:
        ConvertError: It cannot be read, or a line has another form.
    """
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

    tokens: dict[str, int] = {token: row for row, token in enumerate(_SPECIAL)}
    entries = list(_SPECIAL)
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        text = line.rstrip()
        overwrites = text.endswith(_OVERWRITE)
        token, separator, count = text.removesuffix(_OVERWRITE).rpartition(" ")
        if not separator or not count.lstrip("-").isdecimal():
            raise ConvertError(
                f"{path}, line {number}: expected a token and its count, got {line[:40]!r}"
            )
        if token in tokens and not overwrites:
            raise ConvertError(f"{path}, line {number}: expected each token once, got {token!r}")
        tokens[token] = len(entries)
        entries.append(token)
    # The decoder starts with the end token.
    special = SpecialIds(pad=1, unknown=3, start=2, end=2)
    return TokenList(_distinct(entries, tokens), special, path)


def _distinct(entries: list[str], rows: Mapping[str, int]) -> list[str]:
    """Return tokens of which the later one keeps its name where two are the same."""
    return [
        token if row < len(_SPECIAL) or rows[token] == row else f"{token}#{row}"
        for row, token in enumerate(entries)
    ]
