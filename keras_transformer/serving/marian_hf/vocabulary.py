"""Vocabularies of Hugging Face's MarianMT, and the SentencePiece models beside them.

Its tokenizer cuts text by a SentencePiece model, and looks the pieces up as text in ``vocab.json``:
a piece outside it is ``<unk>``. The ids of the model file itself do not matter, so the models of a
run can be written as they are; only tags of languages, which are tokens without a mark of space
there and never reach the model, are taken out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from keras_transformer.data.sentencepiece_tokenizer import SentencePiece
from keras_transformer.special_tokens import END, PAD, UNKNOWN

END_TOKEN, UNKNOWN_TOKEN, PAD_TOKEN = "</s>", "<unk>", "<pad>"
END_ID, UNKNOWN_ID = 0, 1

# A tag that Hugging Face's tokenizer cuts off before SentencePiece.
_TAG = re.compile("\u2581(>>[^<>\\s]+<<)")
_NAMES = {END: END_TOKEN, UNKNOWN: UNKNOWN_TOKEN, PAD: PAD_TOKEN}
_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece


@dataclass(frozen=True)
class MarianVocabulary:
    """A vocabulary in the order of MarianMT's ids."""

    tokens: list[str]
    """Token of each id."""
    rows: np.ndarray
    """For each id, that of the run."""

    @property
    def ids(self) -> dict[str, int]:
        """Ids by token, the contents of ``vocab.json``."""
        return {token: number for number, token in enumerate(self.tokens)}

    @property
    def pad(self) -> int:
        """Id of padding, which is the decoder's first input too."""
        return self.tokens.index(PAD_TOKEN)


def vocabularies(
    source: SentencePiece,
    target: SentencePiece,
    lacking: tuple[Collection[int], Collection[int]],
    common: bool,
) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Return the vocabularies of both sides, the same object if the ids are common.

    First come the end and the unknown token, then the others in the order of the run, with padding
    last. If the sides differ in size, padding is last in the smaller one, and has the same id in
    the other: MarianMT has one id for both.

    Args:
        source: Source tokenizer.
        target: Target tokenizer.
        lacking: For each side, ids that are left out: the run computes the unknown token there.
        common: Whether both sides have the same ids, as tied embeddings need.
    """
    tags = language_tags(source)
    if common:
        left_out = set(lacking[0]) & set(lacking[1])
        tokens = _ordinary(source, left_out)
        both = _vocabulary(source, tokens, len(tokens), tags)
        return both, both
    kept = [_ordinary(side, out) for side, out in zip((source, target), lacking, strict=True)]
    last = min(map(len, kept))
    return (
        _vocabulary(source, kept[0], last, tags),
        _vocabulary(target, kept[1], last, {}),
    )


def _ordinary(side: SentencePiece, lacking: Collection[int]) -> list[int]:
    return [token for token in range(END + 1, side.size) if token not in lacking]


def _vocabulary(
    side: SentencePiece, ordinary: list[int], before_pad: int, tags: dict[str, str]
) -> MarianVocabulary:
    rows = [END, UNKNOWN, *ordinary[:before_pad], PAD, *ordinary[before_pad:]]
    pieces = side.pieces(rows)
    taken = set(pieces)
    tokens = [
        _NAMES.get(row) or _renamed(piece, tags, taken)
        for row, piece in zip(rows, pieces, strict=True)
    ]
    return MarianVocabulary(tokens, np.asarray(rows, np.int64))


def _renamed(piece: str, tags: dict[str, str], taken: Collection[str]) -> str:
    name = tags.get(piece, piece)
    if piece == "<s>'":  # of a converted vocabulary with an entry <s> that starts nothing
        name = "<s>"
    return piece if name in taken else name


def language_tags(source: SentencePiece) -> dict[str, str]:
    """Return the tags that the source tokenizer reads as one token, by piece.

    Returns:
        Such as ``{"▁>>deu<<": ">>deu<<"}``.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(source.proto)
    return {
        piece.piece: found[1]
        for piece in proto.pieces
        if piece.type == _PIECE.USER_DEFINED and (found := _TAG.fullmatch(piece.piece))
    }


def model_bytes(side: SentencePiece, tags: Iterable[str]) -> bytes:
    """Return the SentencePiece model of a side without the tags."""
    tags = set(tags)
    if not tags:
        return side.proto
    proto = sentencepiece_model_pb2.ModelProto.FromString(side.proto)
    kept = [piece for piece in proto.pieces if piece.piece not in tags]
    del proto.pieces[:]
    proto.pieces.extend(kept)
    proto.trainer_spec.vocab_size = len(kept)
    result: bytes = proto.SerializeToString(deterministic=True)
    return result
