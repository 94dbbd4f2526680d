"""Tokenizers made of foreign vocabularies, with the rows that their ids take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keras_transformer.convert.vocabulary_rows import NONE, VocabularyRows
from keras_transformer.special_tokens import START

if TYPE_CHECKING:
    from keras_transformer.data.foreign_sentencepiece import RewrittenModels, SpecialIds
    from keras_transformer.data.tokenizer import Tokenizer

CONTINUATION = "@@"
"""Ending of a word that the next one continues, in subword-nmt and fastBPE."""

_MIN_VOCABULARY_SIZE = 300  # of the field data.vocabulary_size


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary of the other system.

    Args:
        ids: Ids by token, 0 to n - 1.
        special: Ids of the special tokens; its start is the row that embeds the start.
    """

    ids: Mapping[str, int]
    special: SpecialIds


@dataclass(frozen=True)
class ForeignTokenizer:
    """A tokenizer and the rows that its ids take.

    Args:
        tokenizer: The tokenizer.
        source: Rows of the source vocabulary.
        target: Rows of the target vocabulary, the same object for common ids.
        target_tokens: For each id of the other system's target vocabulary, the token of ours.
        settings: Fields of the section ``data`` that describe the tokenizer.
        notes: Lines for the user.
    """

    tokenizer: Tokenizer
    source: VocabularyRows
    target: VocabularyRows
    target_tokens: list[str]
    settings: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def from_sentencepiece(
    models: tuple[bytes, bytes], source: Vocabulary, target: Vocabulary, preprocess: str = ""
) -> ForeignTokenizer:
    """Return a tokenizer of two SentencePiece models.

    Args:
        models: The bytes of the model files, which are the same for a joint model.
        source: The source vocabulary.
        target: The target vocabulary; the same object if the two models have common ids.
        preprocess: As in `ConvertSettings`.

    Raises:
        TokenizerError: A model is damaged.
    """
    from keras_transformer.data.foreign_sentencepiece import language_tags, rewrite_models
    from keras_transformer.data.opus_punctuation import with_opus_punctuation
    from keras_transformer.data.tokenizer import Tokenizer

    if preprocess == "opus":
        models = (with_opus_punctuation(models[0]), with_opus_punctuation(models[1]))
    tags = language_tags(source.ids, models)
    if source is target:
        both = rewrite_models(models, source.ids, source.special, tags)
        tokenizer = Tokenizer(both.sides[0], both.sides[1])
        source_rows = target_rows = _rows(both, source)
    else:
        first = rewrite_models([models[0]], source.ids, source.special, tags)
        second = rewrite_models([models[1]], target.ids, target.special)
        tokenizer = Tokenizer(first.sides[0], second.sides[0])
        source_rows, target_rows = _rows(first, source), _rows(second, target)
    return ForeignTokenizer(
        tokenizer,
        source_rows,
        target_rows,
        _tokens(tokenizer, target_rows),
        _settings(tokenizer, _algorithm(models[0])),
        [_tags_note(tags)] if tags else [],
    )


def from_words(
    source: Vocabulary, target: Vocabulary, continuation: str = CONTINUATION
) -> ForeignTokenizer:
    """Return a tokenizer of tokens separated by spaces.

    Args:
        source: The source vocabulary.
        target: The target vocabulary; the same object for common ids.
        continuation: Ending of a word that the next one continues; "": none.

    Raises:
        TokenizerError: A token is empty or has a space in it.
    """
    from keras_transformer.data.tokenizer import Tokenizer
    from keras_transformer.data.word_tokenizer import SPECIAL, Words

    sides, rows = [], []
    for each in (source,) if source is target else (source, target):
        special = each.special
        skipped = {special.pad, special.unknown, special.start, special.end}
        words = {word: row for word, row in each.ids.items() if row not in skipped}
        for name in SPECIAL:  # such as an entry <s> that starts nothing
            if name in words:
                words[f"{name}'"] = words.pop(name)
        ordered = sorted(words, key=words.__getitem__)
        marks = continuation if any(word.endswith(continuation) for word in ordered) else ""
        sides.append(Words(ordered, marks))
        first = [special.pad, special.unknown, special.start, special.end]
        order = [*first, *(words[word] for word in ordered)]
        rows.append(VocabularyRows(order, len(each.ids), _scored(order, special)))
    tokenizer = Tokenizer(sides[0], sides[-1])
    notes = [
        "tokens in, tokens out: the run reads and writes tokens separated by spaces; cut the text "
        "by the tokenizer of the source system before, and undo it after"
    ]
    settings = _settings(tokenizer, "words")
    tokens = _tokens(tokenizer, rows[-1])
    return ForeignTokenizer(tokenizer, rows[0], rows[-1], tokens, settings, notes)


def from_rewritten(
    models: tuple[RewrittenModels, RewrittenModels], source: Vocabulary, target: Vocabulary
) -> ForeignTokenizer:
    """Return a tokenizer of SentencePiece models of BPE that have the vocabularies' ids already.

    Args:
        models: The models of source and target, each with one side.
        source: The source vocabulary.
        target: The target vocabulary.
    """
    from keras_transformer.data.tokenizer import Tokenizer

    tokenizer = Tokenizer(models[0].sides[0], models[1].sides[0])
    rows = _rows(models[1], target)
    return ForeignTokenizer(
        tokenizer,
        _rows(models[0], source),
        rows,
        _tokens(tokenizer, rows),
        _settings(tokenizer, "bpe"),
    )


def _rows(models: RewrittenModels, vocabulary: Vocabulary) -> VocabularyRows:
    scored = _scored(models.scored, vocabulary.special)
    return VocabularyRows(models.embedded, len(vocabulary.ids), scored)


def _scored(rows: list[int], special: SpecialIds) -> list[int]:
    """Return the rows with none for START if that is embedded by the row of another token."""
    rows = list(rows)
    if rows[START] in (special.pad, special.unknown, special.end):
        rows[START] = NONE
    return rows


def _tokens(tokenizer: Tokenizer, target: VocabularyRows) -> list[str]:
    tokens = [""] * target.size
    pieces = tokenizer.target.pieces(range(tokenizer.target.size))
    for piece, row in zip(pieces, target.scored, strict=True):
        if row != NONE:
            tokens[row] = piece
    return tokens


def _settings(tokenizer: Tokenizer, algorithm: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"data.joint": tokenizer.joint, "data.algorithm": algorithm}
    if tokenizer.source.size >= _MIN_VOCABULARY_SIZE:
        settings["data.vocabulary_size"] = tokenizer.source.size
    return settings


def _algorithm(model: bytes) -> str:
    from sentencepiece import sentencepiece_model_pb2

    kind = sentencepiece_model_pb2.ModelProto.FromString(model).trainer_spec.model_type
    return {2: "bpe", 4: "char"}.get(kind, "unigram")


def _tags_note(tags: list[str]) -> str:
    shown = ", ".join(tags[:5]) + (", ..." if len(tags) > 5 else "")
    return f"target languages: {len(tags)}; begin each source text with one and a space: {shown}"
