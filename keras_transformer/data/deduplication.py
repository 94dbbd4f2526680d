"""What was met before, in little memory: repeated pairs of a corpus of any size."""

from __future__ import annotations

import numpy as np


class Seen:
    """A set of 64-bit numbers that grows by 8 bytes each, where Python's takes 60 and more.

    Sorted arrays, each at least twice as long as the next: a number is looked for in few of
    them, and merged a few times in all.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Add numbers in their order.

        Args:
            keys: (N,) int64.

        Returns:
            (N,) bool: whether the number came in an earlier call, or before in this one.
        """
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        again = np.zeros(len(keys), bool)
        again[1:] = ranked[1:] == ranked[:-1]
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, ranked), len(run) - 1)
            again |= run[places] == ranked
        self._merge(ranked[~again])
        known = np.empty_like(again)
        known[order] = again
        return known

    def _merge(self, run: np.ndarray) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")  # fast on what is two sorted parts
        self._runs.append(run)
