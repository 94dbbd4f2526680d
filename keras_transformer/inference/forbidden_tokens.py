"""Ids of all tokens that a search never generates."""

from __future__ import annotations

from keras_transformer.config import SearchConfig
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.data.suppressed_tokens import suppressed_tokens
from keras_transformer.inference.search.constraints import special_tokens_forbidden


def forbidden_tokens(search: SearchConfig, target: LanguageTokenizer) -> tuple[int, ...]:
    """Return the special tokens and the pieces of ``search.suppress`` as ids, each once.

    Args:
        search: ``allow_unknown`` and ``suppress``.
        target: Tokenizer of the target language.

    Raises:
        ConfigError: A piece of ``search.suppress`` cannot be suppressed.
    """
    special = special_tokens_forbidden(search.allow_unknown)
    return tuple(dict.fromkeys((*special, *suppressed_tokens(search, target))))
