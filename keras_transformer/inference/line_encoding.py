"""Encoding of lines and prefixes, and their limits."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from keras_transformer.config import DataConfig, SearchConfig
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.inference.translation import TranslationError

logger = logging.getLogger(__name__)


def encode_lines(
    tokenizer: LanguageTokenizer,
    lines: Sequence[str],
    data: DataConfig,
    name: str,
    first_line: int,
    *,
    end: bool = True,
) -> list[list[int]]:
    """Encode lines; truncate or refuse those that are too long.

    Args:
        tokenizer: Tokenizer of their language.
        lines: Any text.
        data: ``max_tokens``, END counted where there is one, and ``on_long``.
        name: Kind of line, for messages.
        first_line: Number of the first line, for messages.
        end: Whether END will follow each line.

    Returns:
        The ids of each line without END; none for a blank line.

    Raises:
        TranslationError: A line is too long and ``data.on_long`` is "refuse".
    """
    encoded = tokenizer.encode(lines)
    most = data.max_tokens
    for index, ids in enumerate(encoded):
        length = len(ids) + end
        if length <= most:
            continue
        number = first_line + index
        if data.on_long == "refuse":
            raise TranslationError(
                f"{name} {number}: expected at most {most} tokens (data.max_tokens), got "
                f"{length}; split it, or set data.on_long to cut"
            )
        logger.warning("%s %d: %d tokens, cut to %d (data.max_tokens)", name, number, length, most)
        encoded[index] = ids[: most - end]
    return encoded


def encode_prefixes(
    tokenizer: LanguageTokenizer,
    prefixes: Sequence[str],
    sources: Sequence[Sequence[int]],
    search: SearchConfig,
    first_line: int,
) -> list[list[int]]:
    """Encode target prefixes that leave room for END.

    Args:
        tokenizer: Tokenizer of the target language.
        prefixes: A prefix for each source; a blank one does not constrain the translation.
        sources: Ids of the source lines without END.
        search: The limits of a translation.
        first_line: Number of the first line, for messages.

    Returns:
        The ids of each prefix.

    Raises:
        TranslationError: The counts differ, or a prefix is longer than its translation may be.
    """
    if len(prefixes) != len(sources):
        raise TranslationError(
            f"prefixes: expected one for each line, got {len(prefixes)} for {len(sources)} lines "
            f"from line {first_line} on"
        )
    encoded = tokenizer.encode(prefixes)
    for index, (source, prefix) in enumerate(zip(sources, encoded, strict=True)):
        most = search.length_limit(len(source)) - 1
        if source and len(prefix) > most:
            raise TranslationError(
                f"prefix {first_line + index}: expected at most {most} tokens "
                f"({_limit(search)}, minus the end token), got {len(prefix)}"
            )
    return encoded


def _limit(search: SearchConfig) -> str:
    """Describe the length limit of a translation."""
    tokens = "those of its line"
    if search.max_factor != 1:
        tokens += " times search.max_factor"
    maximum = f", at most search.max_length {search.max_length}" if search.max_length else ""
    return f"{tokens} plus search.max_extra{maximum}"
