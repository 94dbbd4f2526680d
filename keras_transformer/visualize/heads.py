"""Entropy, mean distance and role of an attention head.

Shapes: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from keras_transformer.visualize.tokens import Token, is_separator

AttentionKind = Literal["cross", "encoder", "decoder"]

MIN_WEIGHT = 0.5
"""Mean weight from which a head has a role."""
MIN_ENTROPY = 0.8
"""Mean entropy, relative to its maximum, from which a head without a role is diffuse."""
MIXED = "mixed"

RULES = {
    "previous token": f"self-attention; mean weight on the token before the query ≥ {MIN_WEIGHT}",
    "next token": f"encoder self-attention; mean weight on the token after it ≥ {MIN_WEIGHT}",
    "same token": f"self-attention; mean weight on the query's own position ≥ {MIN_WEIGHT}",
    "separator": f"mean weight on start, end and punctuation ≥ {MIN_WEIGHT}",
    "alignment": f"cross-attention; mean largest weight on any other token ≥ {MIN_WEIGHT}, and "
    "these weights are on at least half as many different tokens as possible",
    "diffuse": f"none of these; mean entropy ≥ {MIN_ENTROPY} of its maximum",
    MIXED: "none of these",
}
"""The rule of each role. If several hold, the role with the greatest mean weight counts."""


class HeadStatistics(NamedTuple):
    """Statistics of one head for one sentence; means are over the queries."""

    kind: AttentionKind
    layer: int
    """From 0."""
    head: int
    """From 0."""
    entropy: float
    """Mean entropy of the weights of a query, in nats."""
    max_entropy: float
    """Maximum of the mean entropy: all keys of a query have the same weight."""
    distance: float
    """Mean distance of query and key positions, weighted, in tokens."""
    role: str
    """One of the keys of ``RULES``."""
    role_weight: float
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
    kind: AttentionKind,
    columns: Sequence[Token],
    rows: Sequence[Token],
    layer: int = 0,
    head: int = 0,
) -> HeadStatistics:
    """Describe one head.

    A query with a single key (the first of the decoder) is left out unless there is no other: its
    weight is always 1.

    Args:
        weights: (T, S), rows are queries.
        kind: The attention that the head belongs to.
        columns: The S tokens of the keys.
        rows: The T tokens of the queries; in cross-attention those that they predict.
        layer: Index of its layer, from 0.
        head: Its index in the layer, from 0.
    """
    keys = _key_counts(weights, kind)
    counted = keys > 1 if (keys > 1).any() else keys > 0
    weight, role = max(
        (value, name)
        for name, value in _role_weights(weights, kind, columns, rows, counted).items()
    )
    mean = float(entropy(weights)[counted].mean())
    maximum = float(np.log(keys[counted]).mean())
    if weight < MIN_WEIGHT:
        weight, role = 0.0, "diffuse" if mean >= MIN_ENTROPY * maximum else MIXED
    distance = float(mean_distance(weights)[counted].mean())
    return HeadStatistics(kind, layer, head, mean, maximum, distance, role, float(weight))


def _key_counts(weights: np.ndarray, kind: AttentionKind) -> np.ndarray:
    """Return for each query the number of keys to which it may attend, (T,)."""
    queries, keys = weights.shape
    if kind == "decoder":
        return np.minimum(np.arange(1, queries + 1), keys)
    return np.full(queries, keys)


def _role_weights(
    weights: np.ndarray,
    kind: AttentionKind,
    columns: Sequence[Token],
    rows: Sequence[Token],
    counted: np.ndarray,
) -> dict[str, float]:
    """Return the mean weight of each role's rule, over the queries that are counted."""
    separators = np.array([is_separator(token) for token in columns])
    found = {"separator": float(weights[counted][:, separators].sum(-1).mean())}
    if kind == "cross":
        found["alignment"] = _alignment_weight(weights, separators, rows)
        return found
    found["same token"] = float(np.diagonal(weights)[counted].mean())
    if len(weights) > 1:
        found["previous token"] = float(np.diagonal(weights, -1).mean())
        if kind == "encoder":
            found["next token"] = float(np.diagonal(weights, 1).mean())
    return found


def _alignment_weight(weights: np.ndarray, separators: np.ndarray, rows: Sequence[Token]) -> float:
    """Return the mean of the largest weight on words in each row of a word.

    0 if the largest weights of the rows lie on too few different words.
    """
    words = [not is_separator(token) for token in rows]
    if separators.all() or not any(words):
        return 0.0
    inner = weights[words][:, ~separators]
    possible = min(inner.shape)
    if len(set(inner.argmax(-1).tolist())) < possible / 2:
        return 0.0
    return float(inner.max(-1).mean())
