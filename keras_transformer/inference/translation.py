"""What comes of a line: its translation, or the score of a given one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.inference.alignment import Attention


class TranslationError(UserError):
    """Input that cannot be translated or scored; the message says which and why."""


class Alternative(NamedTuple):
    """A further translation of a sentence."""

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """What became of one line."""

    text: str
    """The best translation, one line of plain text; empty for a blank line."""
    score: float
    """Its log-probability over its length penalty; 0 for a blank line."""
    finished: bool = True
    """False where the length limit came before the end of the sentence."""
    alternatives: tuple[Alternative, ...] = ()
    """The next best, best first: up to ``search.n_best`` - 1 of them."""
    attention: Attention | None = None
    """Where the network looked, if that was asked for; None for a blank line."""


@dataclass(frozen=True)
class Score:
    """How probable the model finds a given translation."""

    log_probability: float
    """Natural logarithm of P(target, END | source)."""
    tokens: int
    """Tokens of the target, END counted."""
    by_token: tuple[float, ...]
    """Log-probability of each of them, END last."""
    pieces: tuple[str, ...]
    """Each of them as the tokenizer writes it, a space as U+2581."""
