"""JoeyNMT: a model folder with config.yaml, a checkpoint and vocabularies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.convert import checks
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.foreign_tokenizer import CONTINUATION, ForeignTokenizer
from keras_transformer.convert.joeynmt_network import SOURCE, TARGET, JoeyNetwork
from keras_transformer.convert.readers import torch_file, yaml_file
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.sentencepiece_pieces import read_pieces
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.convert.tensors import Tensors
from keras_transformer.convert.token_vocabulary import (
    TokenList,
    token_tokenizer,
)

NAME = "joeynmt"
DESCRIPTION = "JoeyNMT: a folder with config.yaml, best.ckpt and vocabularies"
OPTIONS: frozenset[str] = frozenset()

_SYMBOLS = {"unk": (0, "<unk>"), "pad": (1, "<pad>"), "bos": (2, "<s>"), "eos": (3, "</s>")}
_LANGUAGES = {"source": "src", "target": "trg"}


def recognises(source: Path) -> bool:
    """Return whether a folder has a config.yaml and a checkpoint."""
    folder = source if source.is_dir() else source.parent
    return (folder / "config.yaml").is_file() and bool(_checkpoints(source))


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model; see `Format`."""
    file = _one_checkpoint(source)
    path = file.with_name("config.yaml")
    config = yaml_file.read_settings(path)
    data_section, model = (_section(config, name, path) for name in ("data", "model"))
    checkpoint = torch_file.load(file)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model_state"), dict):
        raise ConvertError(f"{file}: expected a checkpoint of JoeyNMT with model_state, found none")
    tensors = Tensors(torch_file.TorchTensors(checkpoint["model_state"]), file)
    data = _Data(data_section, file.parent)
    tokenizer, suppressed, notes = _tokenizer(data, tensors)
    network = JoeyNetwork(model, tensors, path)
    weights, found = network.weights((tokenizer.source, tokenizer.target))
    search, search_notes = _search(config.get("testing"), suppressed)
    return ForeignModel(
        format=NAME,
        settings={
            **network.settings(),
            **search,
            **tokenizer.settings,
            **found,
            **data.languages(),
        },
        weights=weights,
        tokenizer=tokenizer.tokenizer,
        notes=[*tokenizer.notes, *notes, *search_notes],
        facts=network.facts(),
    )


def _section(config: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    section = config.get(name)
    if not isinstance(section, dict):
        raise ConvertError(f"{path}: expected the section {name} of JoeyNMT, found none")
    return section


def _checkpoints(source: Path) -> list[Path]:
    files = [source] if source.is_file() else sorted(source.glob("*.ckpt"))
    return [file for file in files if file.suffix == ".ckpt" and torch_file.is_torch_file(file)]


def _one_checkpoint(source: Path) -> Path:
    files = _checkpoints(source)
    best = [file for file in files if file.name == "best.ckpt"]
    if len(files) == 1 or best:
        return (best or files)[0]
    names = ", ".join(file.name for file in files[:5]) or "none"
    raise ConvertError(f"{source}: expected best.ckpt or one .ckpt file, got {names}; name a file")


class _Data:
    """The section ``data``, of version 1 or 2."""

    def __init__(self, section: Mapping[str, Any], folder: Path) -> None:
        self._section = section
        self.folder = folder

    def side(self, name: str) -> Mapping[str, Any]:
        """Return the options of ``src`` or ``trg``."""
        side = self._section.get(name)
        return side if isinstance(side, dict) else self._section

    def languages(self) -> dict[str, str]:
        """Return the languages of the run."""
        found = {}
        for ours, theirs in _LANGUAGES.items():
            side = self._section.get(theirs)
            language = side.get("lang") if isinstance(side, dict) else side
            if isinstance(language, str) and language:
                found[f"data.{ours}"] = language
        return found

    def symbols(self) -> tuple[dict[str, tuple[int, str]], list[str]]:
        """Return id and token of the special symbols, and tokens that are never generated."""
        given = self._section.get("special_symbols")
        given = given if isinstance(given, dict) else {}
        where, symbols = "data.special_symbols", {}
        for name, (number, token) in _SYMBOLS.items():
            number = checks.whole_number(where, f"{name}_id", given.get(f"{name}_id", number), 0)
            token = checks.text(where, f"{name}_token", given.get(f"{name}_token", token))
            symbols[name] = (number, token)
        separator = [given["sep_token"]] if given.get("sep_token") else []
        tags = given.get("lang_tags")
        tags = tags if isinstance(tags, list) else []
        return symbols, [str(token) for token in [*separator, *tags]]

    def vocabulary(self, name: str) -> TokenList:
        """Read the vocabulary of a side: special tokens come first, if the file lacks them."""
        from keras_transformer.data.foreign_sentencepiece import SpecialIds

        configured = self.side(name).get("voc_file")
        own = self.folder / f"{name}_vocab.txt"
        path = own
        if not own.is_file() and isinstance(configured, str):
            path = self.folder / configured.replace("\\", "/").rpartition("/")[2]
        symbols, others = self.symbols()
        specials = [token for _, token in symbols.values()]
        # As in JoeyNMT: all ends of lines of Unicode, and each token once.
        tokens = list(dict.fromkeys([*specials, *others, *read_text(path).splitlines()]))
        for number, token in symbols.values():
            if tokens.index(token) != number:
                raise ConvertError(
                    f"{path}: expected {token} with the id {number}, got {tokens.index(token)}"
                )
        ids = {key: number for key, (number, _) in symbols.items()}
        special = SpecialIds(ids["pad"], ids["unk"], ids["bos"], ids["eos"])
        return TokenList(tokens, special, path)

    def sentencepiece(self, name: str) -> Path | None:
        """Return the SentencePiece model of a side."""
        side = self.side(name)
        tokenizer = side.get("tokenizer_cfg")
        file = tokenizer.get("model_file") if isinstance(tokenizer, dict) else None
        kind = side.get("tokenizer_type", side.get("bpe_type", "sentencepiece"))
        if side.get("level") != "bpe" or kind != "sentencepiece" or not isinstance(file, str):
            return None
        path = self.folder / file.replace("\\", "/").rpartition("/")[2]
        return path if path.is_file() else None

    def codes(self) -> Path | None:
        """Return the codes of subword-nmt, if both sides have the same ones and its usual marks."""
        names = set()
        for name in ("src", "trg"):
            side = self.side(name)
            options = side.get("tokenizer_cfg")
            kind = side.get("tokenizer_type", side.get("bpe_type"))
            if not isinstance(options, dict) or kind != "subword-nmt":
                return None
            if options.get("separator", CONTINUATION) != CONTINUATION:
                return None
            names.add(str(options.get("codes", "")).replace("\\", "/").rpartition("/")[2])
        path = self.folder / names.pop()
        return path if not names and path.is_file() else None

    def preparation(self, name: str) -> list[str]:
        """Return what JoeyNMT does to the text of a side that this package does not."""
        side = self.side(name)
        tokenizer = side.get("tokenizer_cfg")
        moses = isinstance(tokenizer, dict) and tokenizer.get("pretokenizer") == "moses"
        steps = {
            "lowercase": side.get("lowercase"),
            "normalize": side.get("normalize"),
            "pretokenizer moses": moses,
        }
        return [step for step, used in steps.items() if used]


def _tokenizer(data: _Data, tensors: Tensors) -> tuple[ForeignTokenizer, list[str], list[str]]:
    """Return the tokenizer, tokens that are never generated, and notes."""
    source, target = data.vocabulary("src"), data.vocabulary("trg")
    source.check_size(tensors.shape(SOURCE)[0], SOURCE)
    target.check_size(tensors.shape(TARGET)[0], TARGET)
    notes = [
        f"text: JoeyNMT prepares the {ours} text by {', '.join(steps)}; do that outside"
        for ours, theirs in _LANGUAGES.items()
        if (steps := data.preparation(theirs))
    ]
    models = [data.sentencepiece(name) for name in ("src", "trg")]
    found = [path for path in models if path is not None]
    if len(found) == 2:
        # JoeyNMT forbids pieces outside the vocabulary, and cuts the text otherwise then.
        lacking = sum(_lacking(*pair) for pair in zip(found, (source, target), strict=True))
        if lacking:
            notes.append(f"text: {lacking} pieces of the SentencePiece model have no id: tokens in")
            found = []
    else:
        found = []
    if found and found[0] == found[1]:
        found = found[:1]
    codes = data.codes()
    tokenizer = token_tokenizer(source, target, found, codes, split_unknown=True)
    return tokenizer, data.symbols()[1], notes


def _lacking(model: Path, vocabulary: TokenList) -> int:
    """Return how many pieces of a model have no id; its special ones need none."""
    tokens = {*vocabulary.tokens, "<unk>", "<s>", "</s>", "<pad>"}
    return sum(piece not in tokens for piece in read_pieces(model))


def _search(testing: Any, suppressed: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return our fields of the search, and notes about options without a counterpart."""
    options = testing if isinstance(testing, dict) else {}
    longest = options.get("max_output_length", -1)
    repeated = options.get("no_repeat_ngram_size", -1)
    alpha = options.get("beam_alpha", options.get("alpha", -1))
    settings: dict[str, Any] = {
        "search.beam": options.get("beam_size", 1),
        "search.length_penalty": "gnmt",
        "search.alpha": max(float(alpha), 0.0) if isinstance(alpha, int | float) else 0.0,
        "search.min_length": options.get("min_output_length", 1),
        "search.no_repeat_ngram": repeated if type(repeated) is int and repeated > 0 else 0,
        "search.allow_unknown": bool(options.get("generate_unk", True)),
        "search.suppress": tuple(suppressed),
    }
    notes = []
    if type(longest) is int and longest > 0:
        settings |= {"search.max_factor": 0.0, "search.max_extra": longest}
    else:
        # 1.5 times the source with its end token.
        settings |= {"search.max_factor": 1.5, "search.max_extra": 1}
    penalty = options.get("repetition_penalty", -1)
    if isinstance(penalty, int | float) and penalty > 1:
        notes.append(f"search: repetition_penalty {penalty} has no counterpart and is left out")
    return settings, notes
