"""Scores on the dev set: names, selection of the best weights, formatting."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from keras_transformer.evaluation.metrics import MIN_BLEU

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


class SelectionScore(NamedTuple):
    """Score that selects the best weights; greater is better.

    If two models have the same ``metric``, the dev loss decides.
    """

    metric: float = -math.inf
    """BLEU, or the negative dev loss."""
    negative_loss: float = -math.inf
    """The negative dev loss."""


def selection_score(scores: dict[str, Any], by: str = "bleu") -> SelectionScore:
    """Return the score that selects the best weights.

    Args:
        scores: Scores on the dev set, or a record of metrics.jsonl with them.
        by: "bleu", or "loss" for the negative loss, which also replaces a missing BLEU.

    Returns:
        The metric, BLEU as ``informative_bleu`` or the negative loss, and the negative loss. If the
        loss is not finite (null in a record), the lowest score of all.
    """
    loss = scores["dev_loss"]
    if loss is None or not math.isfinite(loss):
        return SelectionScore()
    if by == "bleu" and scores.get("dev_bleu") is not None:
        return SelectionScore(informative_bleu(scores["dev_bleu"]), -loss)
    return SelectionScore(-loss, -loss)


def informative_bleu(bleu: float) -> float:
    """Return BLEU with the two decimals that are shown, 0 below ``MIN_BLEU``: less is noise."""
    return round(bleu, 2) if bleu >= MIN_BLEU else 0.0


def format_scores(scores: Scores) -> str:
    """Return the scores as text, such as "dev loss 1.32, dev BLEU 40.21"."""
    return ", ".join(f"{_TITLES[name]} {value:.2f}" for name, value in scores.items())


def is_checkpoint(record: dict[str, Any]) -> bool:
    """Return True for a record of metrics.jsonl about a checkpoint, False for one of an average."""
    return not ("averaged" in record or "ema_decay" in record)
