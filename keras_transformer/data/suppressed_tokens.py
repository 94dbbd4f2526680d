"""Ids of the pieces that a search never generates."""

from __future__ import annotations

from keras_transformer.config import ConfigError, SearchConfig
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.field_types import format_value
from keras_transformer.special_tokens import END

_NAMED = 5
"""Unknown pieces named in a message."""


def suppressed_tokens(search: SearchConfig, target: LanguageTokenizer) -> tuple[int, ...]:
    """Return the ids of ``search.suppress``, in its order.

    Args:
        search: The search.
        target: Tokenizer of the target language.

    Raises:
        ConfigError: A piece is not in the vocabulary, or is the end token, without which no
            translation could end.
    """
    if not search.suppress:
        return ()
    ids = {piece: token for token, piece in enumerate(target.pieces(range(target.size)))}
    unknown = [piece for piece in search.suppress if piece not in ids]
    if unknown:
        names = ", ".join(map(format_value, unknown[:_NAMED]))
        more = ", ..." if len(unknown) > _NAMED else ""
        raise ConfigError(
            f"search.suppress: expected pieces of the target vocabulary (a space is \u2581), "
            f"got {names}{more}"
        )
    found = tuple(ids[piece] for piece in search.suppress)
    if END in found:
        raise ConfigError(
            f"search.suppress: expected pieces other than the end token {target.pieces([END])[0]}"
        )
    return found
