"""SentencePiece models of other systems, rewritten to ids of this package.

Other systems cut a text by a SentencePiece model and look the pieces up in a vocabulary of their
own, often one for both languages: its order gives the ids, and a piece outside it is unknown. In
the rewritten model, the ids of the pieces are the ids of the network, so that any implementation of
SentencePiece gives them. First come padding, unknown, start and end, then the vocabulary in its
order, then pieces of the models that the vocabulary lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from keras_transformer.data.errors import TokenizerError
from keras_transformer.data.sentencepiece_tokenizer import SentencePiece
from keras_transformer.data.word_tokenizer import SPECIAL
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

NONE = -1
"""Row of an id that the other system has not."""
SPACE = "\u2581"

_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
# SentencePiece scores an unknown character by its lowest score minus this.
_UNKNOWN_PENALTY = 10.0
# Of a BPE model, pieces that are never used are merged last.
_LAST_MERGE = 1_000.0
_CUT = (_PIECE.NORMAL, _PIECE.USER_DEFINED, _PIECE.BYTE)
"""Types of pieces that a text is cut into."""
_KEPT = (*_CUT, _PIECE.UNUSED, _PIECE.CONTROL)
_TAG = re.compile(r">>[^<>\s]+<<|<2[^<>\s]+>")


@dataclass(frozen=True)
class SpecialIds:
    """Ids of the special tokens in the other system; `NONE` where there is no such token."""

    pad: int = NONE
    unknown: int = NONE
    start: int = NONE
    end: int = NONE


@dataclass(frozen=True)
class RewrittenModels:
    """Tokenizers with common ids, and the rows of the other system that these ids take."""

    sides: list[SentencePiece]
    """A tokenizer for each model."""
    embedded: list[int]
    """For each id, the row of the embedding matrix; that of the unknown token for pieces that the
    vocabulary lacks; `NONE` if there is none."""
    scored: list[int]
    """For each id, the row of the projection; `NONE` for pieces that the vocabulary lacks, which
    are never generated."""


def rewrite_models(
    models: Sequence[bytes],
    vocabulary: Mapping[str, int],
    special: SpecialIds,
    tags: Collection[str] = (),
) -> RewrittenModels:
    """Give SentencePiece models the ids of a vocabulary.

    In the result of each model, a piece has one of these types:

    - that of the model, if the model has it;
    - NORMAL with the score of an unknown character, if it is a single character of the vocabulary:
      another system meets it as an unknown character, and finds its id there;
    - UNUSED otherwise: no text is cut into it, but it is decoded.

    Args:
        models: The bytes of model files, one for each language of the vocabulary.
        vocabulary: Ids by piece; special tokens may be among them.
        special: Ids of the special tokens.
        tags: Pieces that stand for a language at the beginning of the source: the first model
            reads them as one token there, and at the beginning of any other word.

    Returns:
        The tokenizers. They differ in the text that they cut, never in their ids.

    Raises:
        TokenizerError: A model is damaged, or two pieces have the same id.
    """
    protos = [_parse(model) for model in models]
    own = {piece.piece for proto in protos for piece in proto.pieces}
    tags = [tag for tag in tags if tag not in own]  # what a model has, it cuts already
    rows = _rows(vocabulary, special, tags)
    lacking = {
        piece.piece: NONE
        for proto in protos
        for piece in proto.pieces
        if piece.type in _CUT and piece.piece not in rows and piece.piece not in SPECIAL
    }
    first = [special.pad, special.unknown, special.start, special.end]
    user_defined = {SPACE + tag for tag in tags}
    return RewrittenModels(
        sides=[
            SentencePiece(_rewritten(proto, rows, lacking, user_defined if not number else ()))
            for number, proto in enumerate(protos)
        ],
        embedded=[*first, *rows.values(), *[special.unknown] * len(lacking)],
        scored=[*first, *rows.values(), *lacking.values()],
    )


def language_tags(vocabulary: Iterable[str], models: Sequence[bytes]) -> list[str]:
    """Return the tags of languages in a vocabulary, such as ``>>deu<<`` and ``<2de>``.

    Tags that a model has among its own pieces are left out: it cuts them already.
    """
    own = {piece.piece for model in models for piece in _parse(model).pieces}
    return [piece for piece in vocabulary if _TAG.fullmatch(piece) and piece not in own]


def _rows(
    vocabulary: Mapping[str, int], special: SpecialIds, tags: Collection[str]
) -> dict[str, int]:
    """Return the row of each piece but the special tokens, in the order of the rows."""
    if len(set(vocabulary.values())) < len(vocabulary):
        raise TokenizerError("vocabulary: expected a piece for each id, got one id for two pieces")
    skipped = {special.pad, special.unknown, special.start, special.end}
    rows: dict[str, int] = {}
    for piece, row in sorted(vocabulary.items(), key=lambda item: item[1]):
        if row in skipped:
            continue
        name = SPACE + piece if piece in tags else piece
        while name in rows or name in SPECIAL:  # such as an entry <s> that starts nothing
            name += "'"
        rows[name] = row
    return rows


def _parse(model: bytes) -> Any:
    try:
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    except DecodeError as error:
        raise TokenizerError(
            f"SentencePiece model: expected a model file, got {len(model)} other bytes"
        ) from error
    if not any(piece.type == _PIECE.NORMAL for piece in proto.pieces):
        raise TokenizerError("SentencePiece model: expected pieces, got none")
    return proto


def _rewritten(
    proto: Any, shared: Iterable[str], lacking: Iterable[str], tags: Collection[str]
) -> bytes:
    """Return a model with the special tokens, the vocabulary and the pieces that it lacks."""
    characters = {piece for piece in shared if len(piece) == 1 and piece != SPACE}
    pieces = [*SPECIAL, *shared, *lacking]
    own = {piece.piece: piece for piece in proto.pieces}
    lowest = min(piece.score for piece in proto.pieces if piece.type == _PIECE.NORMAL)
    is_bpe = proto.trainer_spec.model_type == proto.trainer_spec.BPE
    new = sentencepiece_model_pb2.ModelProto()
    new.CopyFrom(proto)
    del new.pieces[:]
    for number, piece in enumerate(pieces):
        added = new.pieces.add()
        added.piece = piece
        if number <= END:
            added.type = _PIECE.UNKNOWN if number == UNKNOWN else _PIECE.CONTROL
        elif piece in tags:
            added.type = _PIECE.USER_DEFINED
        elif piece in own and own[piece].type in _KEPT:
            added.score, added.type = own[piece].score, own[piece].type
        elif piece in characters:
            added.score, added.type = lowest - _UNKNOWN_PENALTY, _PIECE.NORMAL
        else:
            added.type = _PIECE.UNUSED
            added.score = lowest - _LAST_MERGE if is_bpe else 0.0
    trainer = new.trainer_spec
    trainer.vocab_size = len(pieces)
    trainer.pad_id, trainer.unk_id, trainer.bos_id, trainer.eos_id = PAD, UNKNOWN, START, END
    trainer.pad_piece, trainer.unk_piece, trainer.bos_piece, trainer.eos_piece = SPECIAL
    return new.SerializeToString(deterministic=True)
