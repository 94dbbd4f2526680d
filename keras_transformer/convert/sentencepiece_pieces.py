"""Pieces of a foreign SentencePiece model."""

from __future__ import annotations

from pathlib import Path

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.limits import read_bytes


def read_pieces(path: Path) -> list[str]:
    """Return the pieces of a SentencePiece model in the order of its ids.

    Raises:
        ConvertError: It is no SentencePiece model.
    """
    import sentencepiece

    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=read_bytes(path))
    except (RuntimeError, ValueError):
        raise ConvertError(f"{path}: expected a SentencePiece model, got other data") from None
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]
