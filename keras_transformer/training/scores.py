"""Scores on the dev set: names, selection of the best weights, formatting."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Scores = dict[str, float]
"""``dev_loss``, ``dev_perplexity`` and, where sentences are translated, ``dev_bleu``."""

_TITLES = {"dev_loss": "dev loss", "dev_perplexity": "dev perplexity", "dev_bleu": "dev BLEU"}


class Example(NamedTuple):
    """A dev sentence and its translation."""

    source: str
    reference: str
    translation: str


def perplexity(log_loss: float) -> float:
    """Return exp of the mean -log P of a token; infinity if it overflows."""
    return math.exp(log_loss) if log_loss < 700 else math.inf


def selection_score(scores: dict[str, Any], by: str = "bleu") -> float:
    """Return the score that selects the best weights; greater is better.

    Args:
        scores: Scores on the dev set, or a record of metrics.jsonl with them.
        by: "bleu", or "loss" for the negative loss, which also replaces a missing BLEU.
    """
    return scores["dev_bleu"] if by == "bleu" and "dev_bleu" in scores else -scores["dev_loss"]


def format_scores(scores: Scores) -> str:
    """Return the scores as text, such as "dev loss 1.32, dev BLEU 40.21"."""
    return ", ".join(f"{_TITLES[name]} {value:.2f}" for name, value in scores.items())


def is_checkpoint(record: dict[str, Any]) -> bool:
    """Return whether a record of metrics.jsonl describes a checkpoint rather than an average."""
    return not ("averaged" in record or "ema_decay" in record)
