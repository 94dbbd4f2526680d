"""Translation and Score, the result types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.inference.alignment import Attention


class TranslationError(UserError):
    """Input that cannot be translated or scored; the message names it and the reason."""


class Alternative(NamedTuple):
    """A further translation of a sentence."""

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """The translation of one line."""

    text: str
    """The best translation, one line of plain text; empty for a blank line."""
    score: float
    """Its log-probability over its length penalty; 0 for a blank line."""
    finished: bool = True
    """False if the length limit came before the end of the sentence."""
    alternatives: tuple[Alternative, ...] = ()
    """The next best, best first: up to ``search.n_best`` - 1 of them. All texts of a beam
    search differ; samples may be equal."""
    attention: Attention | None = None
    """Attention to the source, if requested; None for a blank line."""


@dataclass(frozen=True)
class Score:
    """Forced score of a given translation."""

    log_probability: float
    """Natural logarithm of P(target, END | source)."""
    tokens: int
    """Tokens of the target, END counted."""
    by_token: tuple[float, ...]
    """Log-probability of each token, END last."""
    pieces: tuple[str, ...]
    """The subword piece of each token, a space as U+2581."""
