"""Check of a vocabulary's ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_transformer.convert.errors import ConvertError
from keras_transformer.validation import MAX_VOCABULARY_SIZE


def check_ids(pairs: Sequence[tuple[str, Any]], name: object) -> dict[str, int]:
    """Return ids by token, in the order of the ids, which must be 0 to n - 1.

    Args:
        pairs: Tokens and ids.
        name: The file, for messages.

    Raises:
        ConvertError: An id is missing, there twice or no whole number; or a token is there
            twice, or has half a surrogate pair.
    """
    if not 0 < len(pairs) <= MAX_VOCABULARY_SIZE:
        raise ConvertError(
            f"{name}: expected 1 to {MAX_VOCABULARY_SIZE:,} tokens, got {len(pairs):,}"
        )
    tokens: dict[int, str] = {}
    for token, number in pairs:
        if isinstance(number, bool) or not isinstance(number, int):
            raise ConvertError(f"{name}: {token!r}: expected a whole number, got {number!r}")
        if not 0 <= number < len(pairs):
            raise ConvertError(
                f"{name}: {token!r}: expected an id from 0 to {len(pairs) - 1} in a vocabulary of "
                f"{len(pairs)} tokens, got {number}: another id is missing"
            )
        if number in tokens:
            raise ConvertError(
                f"{name}: expected one token of id {number}, got {tokens[number]!r} and {token!r}"
            )
        if any("\ud800" <= character <= "\udfff" for character in token):
            raise ConvertError(f"{name}: expected text as tokens, got {token!r}")
        tokens[number] = token
    ids = {tokens[number]: number for number in range(len(pairs))}
    if len(ids) != len(pairs):
        twice = next(token for token, number in pairs if ids[token] != number)
        raise ConvertError(f"{name}: expected each token once, got {twice!r} twice")
    return ids
