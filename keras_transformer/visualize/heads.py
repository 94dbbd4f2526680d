"""Entropy, mean distance and role of an attention head.

Shapes: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from keras_transformer.visualize.tokens import Token, is_separator

Part = Literal["cross", "encoder", "decoder"]

HALF = 0.5
DIFFUSE = 0.8
MIXED = "mixed"

RULES = {
    "previous token": f"self-attention; mean weight on the token before the query ≥ {HALF}",
    "next token": f"self-attention of the encoder; mean weight on the token after it ≥ {HALF}",
    "same token": f"self-attention; mean weight on the query's own position ≥ {HALF}",
    "separator": f"mean weight on start, end and punctuation ≥ {HALF}",
    "alignment": f"cross-attention; mean largest weight on any other token ≥ {HALF}, and the rows "
    "name at least half as many different tokens as they could",
    "diffuse": f"none of these, and the mean entropy is at least {DIFFUSE} of its greatest value",
    MIXED: "none of these",
}
"""The rule of each role. Of several whose mean weight reaches it, the greatest counts."""


class HeadStatistics(NamedTuple):
    """Statistics of one head for one sentence; means are over the queries."""

    part: Part
    layer: int
    """From 0."""
    head: int
    """From 0."""
    entropy: float
    """Mean entropy of the weights of a query, in nats."""
    max_entropy: float
    """The mean entropy if each query looked at all its keys evenly: ln of their number."""
    distance: float
    """Mean distance of query and key positions, weighted, in tokens."""
    role: str
    """A key of ``RULES``."""
    share: float
    """The mean weight that decided the role; 0 for diffuse and mixed."""


def entropy(weights: np.ndarray) -> np.ndarray:
    """Return the entropy -Σ w ln w of each row of weights (..., S), in nats: (...)."""
    safe = np.where(weights > 0, weights, 1.0)
    return -(weights * np.log(safe)).sum(-1)


def mean_distance(weights: np.ndarray) -> np.ndarray:
    """Return Σ_j w_ij |i - j| for each row i of weights (T, S), in tokens: (T,)."""
    queries, keys = (np.arange(size) for size in weights.shape)
    return (weights * np.abs(queries[:, None] - keys)).sum(-1)


def head_statistics(
    weights: np.ndarray,
    part: Part,
    columns: Sequence[Token],
    rows: Sequence[Token],
    layer: int = 0,
    head: int = 0,
) -> HeadStatistics:
    """Describe one head.

    A query with a single key (the first of the decoder) says nothing about the head and is left
    out, unless there is no other.

    Args:
        weights: (T, S), rows are queries.
        part: Where the head is.
        columns: The S tokens of the keys.
        rows: The T tokens of the queries; in cross-attention the tokens that they write.
        layer: Its layer, from 0.
        head: Its number, from 0.
    """
    allowed = _allowed_keys(weights, part)
    counted = allowed > 1 if (allowed > 1).any() else allowed > 0
    share, role = max(
        ((value, name) for name, value in _shares(weights, part, columns, rows, counted).items()),
        default=(0.0, MIXED),
    )
    mean = float(entropy(weights)[counted].mean())
    greatest = float(np.log(allowed[counted]).mean())
    if share < HALF:
        share, role = 0.0, "diffuse" if mean >= DIFFUSE * greatest else MIXED
    distance = float(mean_distance(weights)[counted].mean())
    return HeadStatistics(part, layer, head, mean, greatest, distance, role, float(share))


def _allowed_keys(weights: np.ndarray, part: Part) -> np.ndarray:
    queries, keys = weights.shape
    if part == "decoder":
        return np.minimum(np.arange(1, queries + 1), keys)
    return np.full(queries, keys)


def _shares(
    weights: np.ndarray,
    part: Part,
    columns: Sequence[Token],
    rows: Sequence[Token],
    counted: np.ndarray,
) -> dict[str, float]:
    """Return the mean weight that each role's rule asks for."""
    separators = np.array([is_separator(token) for token in columns])
    found = {"separator": float(weights[counted][:, separators].sum(-1).mean())}
    if part == "cross":
        found["alignment"] = _alignment_share(weights, separators, rows)
        return found
    found["same token"] = float(np.diagonal(weights)[counted].mean())
    if len(weights) > 1:
        found["previous token"] = float(np.diagonal(weights, -1).mean())
        if part == "encoder":
            found["next token"] = float(np.diagonal(weights, 1).mean())
    return found


def _alignment_share(weights: np.ndarray, separators: np.ndarray, rows: Sequence[Token]) -> float:
    """Return the mean of the rows' largest weights on words, 0 if they name too few of them."""
    words = [not is_separator(token) for token in rows]
    if separators.all() or not any(words):
        return 0.0
    inner = weights[words][:, ~separators]
    possible = min(inner.shape)
    if len(set(inner.argmax(-1).tolist())) < possible / 2:
        return 0.0
    return float(inner.max(-1).mean())
