"""Vocabularies of other systems as tokenizers: lists of tokens, or SentencePiece models."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.limits import read_bytes
from keras_transformer.convert.vocabulary_rows import NONE, VocabularyRows
from keras_transformer.data.foreign_sentencepiece import SpecialIds, rewrite_models
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.word_tokenizer import SPECIAL, Words
from keras_transformer.special_tokens import START

SPACE = "\u2581"
"""SentencePiece's sign for a space."""
CONTINUATION = "@@"
"""Ending of subword-nmt and fastBPE for a token that the next one continues."""
JOINER = "\uffed"
"""Joiner of OpenNMT's tokenizer."""


@dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of one side in the other system.

    Args:
        tokens: The tokens by row, special ones included.
        special: Rows of the special tokens; start is the row of the decoder's first input.
        file: Its file, for messages.
    """

    tokens: Sequence[str]
    special: SpecialIds
    file: object


@dataclass(frozen=True)
class SideVocabularies:
    """The tokenizer of both sides, and the rows of the other system's matrices."""

    tokenizer: Tokenizer
    rows: tuple[VocabularyRows, VocabularyRows]
    settings: dict[str, Any]
    notes: list[str]


def check_size(vocabulary: Vocabulary, size: int, tensor: str) -> None:
    """Check that a vocabulary has as many tokens as a matrix has rows.

    Raises:
        ConvertError: It has another number.
    """
    if len(vocabulary.tokens) != size:
        raise ConvertError(
            f"{vocabulary.file}: expected {size} tokens, as many as {tensor} has rows, got "
            f"{len(vocabulary.tokens)} (the vocabulary of another model?)"
        )


def token_vocabularies(
    source: Vocabulary, target: Vocabulary, models: Sequence[Path] = ()
) -> SideVocabularies:
    """Build the tokenizers of a model's vocabularies.

    Args:
        source: The vocabulary of the source.
        target: That of the target; the same object for a joint vocabulary.
        models: SentencePiece models that cut the text: one, or that of the source and that of the
            target. None: tokens in, tokens out.

    Raises:
        ConvertError: A vocabulary has a token twice, or is not that of the SentencePiece model.
        TokenizerError: A model is damaged.
    """
    if models:
        return _sentencepiece_sides(source, target, models)
    left = _words(source)
    right = left if target is source else _words(target)
    return SideVocabularies(
        Tokenizer(left[0], right[0]),
        (left[1], right[1]),
        {"data.algorithm": "words", "data.joint": left[0] is right[0]},
        [_tokens_note(source.tokens, target.tokens)],
    )


def find_sentencepiece(folder: Path, source: str = "", target: str = "") -> list[Path]:
    """Return the SentencePiece models in a folder: one, those of two languages, or none.

    Args:
        folder: The folder.
        source: Source language, which a name may contain.
        target: Target language.
    """
    found = sorted(path for ending in ("*.model", "*.spm") for path in folder.glob(ending))
    if len(found) == 1:
        return found
    sides = [_named(found, names) for names in (("source", "src", source), ("target", target))]
    return [path for path in sides if path is not None] if all(sides) else []


def _named(paths: Sequence[Path], names: Sequence[str]) -> Path | None:
    """Return the path whose name has one of the words."""
    for name in filter(None, names):
        for path in paths:
            if name in path.name.replace("-", ".").replace("_", ".").split("."):
                return path
    return None


def _words(vocabulary: Vocabulary) -> tuple[Words, VocabularyRows]:
    """Return the tokenizer of a list of tokens, with its rows."""
    special = dataclasses.astuple(vocabulary.special)
    others = [row for row in range(len(vocabulary.tokens)) if row not in special]
    names: dict[str, int] = {}
    for row in others:
        name = vocabulary.tokens[row]
        if name in names:
            raise ConvertError(
                f"{vocabulary.file}: expected each token once, got {name!r} with the ids "
                f"{names[name]} and {row}"
            )
        while name in SPECIAL:  # such as a start token that the decoder does not start with
            name += "'"
        names[name] = row
    marked = any(name.endswith(CONTINUATION) for name in names)
    words = Words(names, CONTINUATION if marked else "", str(vocabulary.file))
    return words, _rows(vocabulary, [*special, *others], [*special, *others])


def _rows(vocabulary: Vocabulary, embedded: list[int], scored: list[int]) -> VocabularyRows:
    """Return the rows of our ids; the start token is scored only if it has a row of its own."""
    special = vocabulary.special
    if special.start in (special.pad, special.unknown, special.end):
        scored[START] = NONE
    return VocabularyRows(embedded, len(vocabulary.tokens), scored)


def _tokens_note(*sides: Sequence[str]) -> str:
    tokens = {token for side in sides for token in side}
    if any(token.endswith(CONTINUATION) for token in tokens):
        form = f"BPE tokens ({CONTINUATION} marks those that the next one continues; they are "
        form += "joined in the output)"
    elif any(token.startswith(SPACE) for token in tokens):
        form = "SentencePiece's pieces"
    elif any(JOINER in token for token in tokens):
        form = f"tokens of OpenNMT's tokenizer (with its joiner {JOINER})"
    else:
        form = "the tokens of its vocabulary"
    return (
        f"text: the model reads and writes {form}, separated by spaces: cut the source as for "
        "its training, and join the output accordingly"
    )


def _sentencepiece_sides(
    source: Vocabulary, target: Vocabulary, models: Sequence[Path]
) -> SideVocabularies:
    data = [read_bytes(path) for path in models]
    if target is source:
        sides, rows = _rewritten(source, data)
        tokenizer = Tokenizer(sides[0], sides[-1])
        both = (rows, rows)
    else:
        left, left_rows = _rewritten(source, data[:1])
        right, right_rows = _rewritten(target, data[-1:])
        tokenizer = Tokenizer(left[0], right[0])
        both = (left_rows, right_rows)
    names = ", ".join(path.name for path in models)
    return SideVocabularies(
        tokenizer,
        both,
        {"data.algorithm": _algorithm(data[0]), "data.joint": tokenizer.joint},
        [f"text: cut by {names}"],
    )


def _rewritten(
    vocabulary: Vocabulary, models: Sequence[bytes]
) -> tuple[Sequence[LanguageTokenizer], VocabularyRows]:
    ids: dict[str, int] = {}
    for row, token in enumerate(vocabulary.tokens):
        if token in ids:
            raise ConvertError(f"{vocabulary.file}: expected each token once, got {token!r} twice")
        ids[token] = row
    rewritten = rewrite_models(models, ids, vocabulary.special)
    lacking = rewritten.scored.count(NONE)
    if lacking > len(ids) // 2:
        raise ConvertError(
            f"{vocabulary.file}: expected the pieces of the SentencePiece model beside it, got a "
            f"vocabulary without {lacking:,} of them; remove the model to convert with tokens in "
            "and out"
        )
    return rewritten.sides, _rows(vocabulary, rewritten.embedded, rewritten.scored)


def _algorithm(model: bytes) -> str:
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    names = {1: "unigram", 2: "bpe", 4: "char"}
    return names.get(proto.trainer_spec.model_type, "unigram")
