"""Attention weights without start and end tokens, on which unused weight often rests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_transformer.visualize.tokens import Token

CAPTION = "Weights on {names} are left out; the others of each row are divided by their sum."


def without_special_keys(
    weights: np.ndarray, columns: Sequence[Token]
) -> tuple[np.ndarray, tuple[Token, ...]]:
    """Leave out the columns of start and end tokens, and renormalise each row.

    Much weight often rests on the end token in encoder and cross-attention, and on the start
    token in the decoder.

    Args:
        weights: (..., T, S).
        columns: The S tokens of the keys.

    Returns:
        The weights (..., T, S') and the S' other tokens. A row without weight on them is 0.
    """
    kept = [index for index, token in enumerate(columns) if token.kind != "special"]
    inner = weights[..., kept]
    sums = inner.sum(-1, keepdims=True)
    # A smaller sum is only rounding error.
    scaled = np.where(sums > 1e-6, inner / np.maximum(sums, 1e-6), 0.0)
    return scaled.astype(weights.dtype), tuple(columns[index] for index in kept)
