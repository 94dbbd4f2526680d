"""Ids of the special tokens, the same in every vocabulary, and the end of a source."""

from __future__ import annotations

from collections.abc import Sequence

PAD, UNKNOWN, START, END = 0, 1, 2, 3

LACKING_BIAS = -30.0
"""Output bias of tokens that a converted model has and its source system has not.

Such tokens must not draw probability. Label smoothing averages log-probabilities over the
vocabulary, so a much lower bias would dominate the loss of a fine-tuning."""


def source_tokens(ids: Sequence[int], source_end: bool = True) -> list[int]:
    """Return the tokens that the encoder reads: the ids of a text and, by default, END.

    A source without any id is END alone in either case, since attention needs a token.

    Args:
        ids: Ids of a text, without special tokens.
        source_end: ``data.source_end``: whether each source ends in END.
    """
    return [*ids, END] if source_end or not ids else list(ids)
