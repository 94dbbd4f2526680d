"""Rows of embeddings and output bias, from the order of another system's ids to this one's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.special_tokens import LACKING_BIAS

NONE = -1
"""In place of a row: the other system has none."""


class VocabularyRows:
    """The rows of another system's vocabulary that each of our ids takes.

    Args:
        embedded: For each of our ids, the row of the embedding matrix; NONE: zeros.
        scored: For each of our ids, the row of the projection and of its bias; NONE: the token is
            not in the other system's softmax, and gets ``LACKING_BIAS``. START, for example, is
            embedded by the row of the other system's start token, but is never scored. Left out:
            as ``embedded``.
        size: Rows of the other system's matrices.

    Raises:
        ConvertError: A row lies outside the vocabulary, or is scored by two ids.
    """

    def __init__(
        self, embedded: Sequence[int], size: int, scored: Sequence[int] | None = None
    ) -> None:
        self.embedded = np.asarray(embedded, np.int64)
        self.scored = np.asarray(embedded if scored is None else scored, np.int64)
        self.size = size
        for rows in (self.embedded, self.scored):
            if rows.size and not (rows.min() >= NONE and rows.max() < size):
                raise ConvertError(f"vocabulary: expected ids 0 to {size - 1}, got {rows.max()}")
        used = self.scored[self.scored != NONE]
        if len(np.unique(used)) != len(used):
            raise ConvertError("vocabulary: expected each id once, got one for two tokens")

    def embedding(self, matrix: np.ndarray) -> np.ndarray:
        """Return the embeddings (V, D) in the order of our ids.

        Where one matrix is tied to the projection, these are also the projection's rows.
        """
        return _select(matrix, self.embedded)

    def projection(self, matrix: np.ndarray) -> np.ndarray:
        """Return the projection (V, D) of a model with a projection of its own."""
        return _select(matrix, self.scored)

    def output_bias(self, bias: np.ndarray | None = None) -> np.ndarray:
        """Return the output bias (V,) in float32, with ``LACKING_BIAS`` for tokens not scored.

        Args:
            bias: The other system's, (V,); None: it has none, or zeros.
        """
        values = np.zeros(self.size, np.float32) if bias is None else bias.astype(np.float32)
        return np.where(self.scored == NONE, np.float32(LACKING_BIAS), values[self.scored])


def _select(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    selected = matrix[rows]
    selected[rows == NONE] = 0
    return selected
