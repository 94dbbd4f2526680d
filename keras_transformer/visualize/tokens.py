"""Tokens as labels of pictures."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

Kind = Literal["text", "punctuation", "byte", "special"]

SPACE = "\u2581"
"""SentencePiece's mark of a space before a piece."""
MARK = "\u02cd"
"""The thin mark that stands for it in labels."""
SPECIAL = {PAD: "padding", UNKNOWN: "unknown", START: "start", END: "end"}
"""Names of the special tokens."""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Token(NamedTuple):
    """One token of a sentence."""

    label: str
    """For pictures: ``ˍdog``, ``[end]``, ``[byte E4]``."""
    spoken: str
    """For screen readers: ``dog``, ``end``, ``byte E4``."""
    kind: Kind


def read_tokens(tokenizer: LanguageTokenizer, ids: Sequence[int]) -> tuple[Token, ...]:
    """Return the tokens of ids, special ones included."""
    pieces = tokenizer.pieces(ids)
    return tuple(_token(number, piece) for number, piece in zip(ids, pieces, strict=True))


def _token(number: int, piece: str) -> Token:
    if number in SPECIAL:
        name = SPECIAL[number]
        return Token(f"[{name}]", name, "special")
    if byte := _BYTE.fullmatch(piece):
        return Token(f"[byte {byte[1]}]", f"byte {byte[1]}", "byte")
    text = piece.replace(SPACE, " ").strip()
    is_punctuation = bool(text) and all(unicodedata.category(sign)[0] in "PS" for sign in text)
    kind: Kind = "punctuation" if is_punctuation else "text"
    return Token(piece.replace(SPACE, MARK), text or "space", kind)


def is_separator(token: Token) -> bool:
    """Return whether a token separates: start, end or punctuation."""
    return token.kind in ("special", "punctuation")
