"""Attention rollout (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers").

A heuristic. It treats each layer as the mean of its heads plus the residual connection, half of
each, and multiplies the layers. Values, feed-forward networks and normalization are ignored, so
that the result says where information could flow by attention, not why a word was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CAPTION = (
    "Attention rollout (Abnar & Zuidema 2020): the product over the layers of half the mean "
    "attention of the heads and half the identity for the residual connection. A heuristic: "
    "values, feed-forward networks and normalization are ignored."
)


def rollout(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Multiply the attention of the layers of one stack.

    Args:
        layers: For each layer, first to last, (H, T, T) self-attention weights.

    Returns:
        (T, T): how much of each input position (column) reaches each position of the last layer
        (row). Rows of weights that sum to 1 give rows that sum to 1.

    Raises:
        ValueError: There is no layer.
    """
    if not len(layers):
        raise ValueError("layers: expected at least one layer of self-attention, got none")
    identity = np.eye(layers[0].shape[-1], dtype=np.float32)
    result = identity
    for weights in layers:
        result = (weights.mean(0) + identity) / 2 @ result  # (T, T)
    return result
