"""Probabilities of the next token at each position of a target.

Shapes: T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.visualize.tokens import Token, read_tokens


class Candidate(NamedTuple):
    """A possible next token."""

    token: Token
    probability: float


class NextTokens(NamedTuple):
    """The distribution of the model at one position."""

    chosen: Candidate
    """The token that stands in the target."""
    rank: int
    """Its rank, 1 for the most probable."""
    candidates: tuple[Candidate, ...]
    """The most probable tokens, best first."""


def read_next_tokens(
    logits: np.ndarray, labels: Sequence[int], tokenizer: LanguageTokenizer, top_k: int
) -> list[NextTokens]:
    """Return the distribution at each position.

    Args:
        logits: (T, V) float32.
        labels: The T tokens of the target, the end token last.
        tokenizer: Of the target language.
        top_k: Number of candidates.
    """
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = shifted / shifted.sum(-1, keepdims=True)  # (T, V)
    found = []
    for row, label in zip(probabilities, labels, strict=True):
        best = np.argsort(-row, kind="stable")[:top_k].tolist()
        tokens = read_tokens(tokenizer, [label, *best])
        chosen, *candidates = (
            Candidate(token, float(row[number]))
            for token, number in zip(tokens, [label, *best], strict=True)
        )
        rank = int((row > row[label]).sum()) + 1
        found.append(NextTokens(chosen, rank, tuple(candidates)))
    return found
