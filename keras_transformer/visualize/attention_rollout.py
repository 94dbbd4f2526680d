"""Attention rollout (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers").

A heuristic. It treats each layer as the mean of two matrices, the mean attention of its heads and
the identity (the residual connection), and multiplies the layers. Values, feed-forward networks and
normalization are ignored: the result shows where information could flow, not why a word was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CAPTION = (
    "Attention rollout (Abnar & Zuidema 2020): for each layer, the mean of the heads' mean "
    "attention and the identity (residual connection), multiplied over the layers. A heuristic: "
    "values, feed-forward networks and normalization are ignored."
)


def rollout(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Return the attention rollout of one stack.

    Args:
        layers: Self-attention weights (H, T, T) of each layer, first to last.

    Returns:
        (T, T): the share of each input position (column) in each position of the last layer
        (row). Rows sum to 1 if the rows of the weights do.

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
