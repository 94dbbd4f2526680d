"""Deduplication of a corpus of any size in little memory."""

from __future__ import annotations

import numpy as np


class Deduplicator:
    """A set of 64-bit keys in 8 bytes each; a Python set needs 60 or more.

    The keys are in sorted arrays, each at least twice as long as the next. So a look-up searches
    few arrays, and each key is merged few times.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Add keys in their order.

        Args:
            keys: (N,) int64.

        Returns:
            (N,) bool: true where the key was in an earlier call, or earlier in this one.
        """
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        found = np.zeros(len(keys), bool)
        found[1:] = ordered[1:] == ordered[:-1]
        for array in self._arrays:
            positions = np.minimum(np.searchsorted(array, ordered), len(array) - 1)
            found |= array[positions] == ordered
        self._merge(ordered[~found])
        repeated = np.empty_like(found)
        repeated[order] = found
        return repeated

    def _merge(self, array: np.ndarray) -> None:
        if not len(array):
            return
        while self._arrays and len(self._arrays[-1]) < 2 * len(array):
            array = np.concatenate([self._arrays.pop(), array])
            array.sort(kind="stable")  # fast on two sorted parts
        self._arrays.append(array)
