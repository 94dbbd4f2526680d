"""Windows of lines, batches by length, and a parallel map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from keras_transformer.special_tokens import PAD

Item = TypeVar("Item")
Result = TypeVar("Result")


def windows(
    lines: Iterable[str], size: int, ready: Callable[[], bool] = lambda: True
) -> Iterator[list[str]]:
    """Group any number of lines.

    Args:
        lines: They are read one by one.
        size: Lines of each group; the last one may be smaller.
        ready: Returns whether the next line comes at once; if not, the group ends before it.
    """
    window: list[str] = []
    for line in lines:
        window.append(line)
        if len(window) == size or not ready():
            yield window
            window = []
    if window:
        yield window


def batches(lengths: Sequence[int], tokens: int, rows: int) -> Iterator[list[int]]:
    """Batch items of similar length, to save padding.

    The longest come first, so that insufficient memory shows at once.

    Args:
        lengths: Tokens of each item.
        tokens: Most tokens of a batch, padding counted; a longer item has its own batch.
        rows: Most items of a batch.

    Yields:
        The indices of the items of each batch.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    first = 0
    while first < len(order):
        size = max(min(tokens // lengths[order[first]], rows), 1)
        yield order[first : first + size]
        first += size


def parallel_map(
    compute: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Apply ``compute`` to all items in several threads.

    Args:
        compute: Called in threads, unless there is one worker or one item.
        items: All are read at once.
        workers: Number of threads.

    Yields:
        The results in the order of the items.
    """
    all_items = list(items)
    workers = min(workers, len(all_items))
    if workers <= 1:
        yield from map(compute, all_items)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(compute, all_items)
    finally:  # after an error, do not start further calls
        pool.shutdown(cancel_futures=True)


def padded_ids(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows of ids as one (B, S) int32 array, padded to the longest row."""
    ids = np.full((len(rows), max(map(len, rows))), PAD, np.int32)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
    return ids
