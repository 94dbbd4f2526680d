"""Order and bounds of batches: sorting by length, cutting by tokens, a few fixed shapes."""

from __future__ import annotations

import numpy as np

Shape = tuple[int, int, int]
"""(B, S, T): rows, source positions and target positions."""

CumulativeTokens = tuple[np.ndarray, np.ndarray]
"""(N + 1,) source tokens and (N + 1,) target tokens before each position of an order."""

MAX_SHAPES = 12
"""Most fixed shapes of a plan."""


def sort_by_group(group: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Sort stably by group, then by source length.

    The keys are packed into one 63-bit number if they fit: sorting it takes a fifth of the time
    of ``np.lexsort``.

    Args:
        group: (N,) whole numbers.
        source: (N,) whole numbers.

    Returns:
        (N,) positions.
    """
    group, source = (np.asarray(column, np.int64) for column in (group, source))
    group, source = group - group.min(), source - source.min()
    bits = [int(most).bit_length() for most in (group.max(), source.max(), len(group) - 1)]
    if sum(bits) > 63:
        return np.lexsort((source, group))
    keys = (group << (bits[1] + bits[2])) | (source << bits[2]) | np.arange(len(group))
    keys.sort()
    return keys & ((1 << bits[2]) - 1)


def min_batch_count(tokens: CumulativeTokens, limit: int) -> int:
    """Count the batches of an order that are each as long as ``limit`` tokens per side allow."""
    start, count = 0, 0
    while start < len(tokens[0]) - 1:
        start, count = _latest_end(tokens, start, limit), count + 1
    return count


def even_bounds(tokens: CumulativeTokens, limit: int, count: int) -> np.ndarray:
    """Cut an order into exactly ``count`` batches, as equal as ``limit`` allows.

    Bound k is as close as possible to k / count of the tokens. It is never so late that its own
    batch exceeds the limit, nor so early that the remaining pairs need more than the remaining
    batches. So there is no small batch at the end.

    Args:
        tokens: Tokens before each position of the order.
        limit: Most tokens per side in a batch; a single longer pair is a batch of its own.
        count: Number of batches, at least ``min_batch_count``.

    Returns:
        (count + 1,) bounds, from 0 to N.
    """
    pairs = len(tokens[0]) - 1
    earliest = [pairs]
    for _ in range(count - 1):
        earliest.append(_earliest_start(tokens, earliest[-1], limit))
    earliest.reverse()  # earliest[k]: lower limit of bound k + 1
    total = tokens[0] + tokens[1]
    even = np.searchsorted(total, total[-1] / count * np.arange(1, count + 1))
    bounds = [0]
    for k in range(count):
        first = max(earliest[k], bounds[-1] + 1)
        last = min(_latest_end(tokens, bounds[-1], limit), pairs - (count - 1 - k))
        bounds.append(max(first, min(last, int(even[k]))))
    return np.array(bounds)


def _latest_end(tokens: CumulativeTokens, start: int, limit: int) -> int:
    """Return the end of the longest batch that begins at ``start``; one pair always fits."""
    end = min(int(side.searchsorted(side[start] + limit, side="right")) for side in tokens)
    return max(end - 1, start + 1)


def _earliest_start(tokens: CumulativeTokens, end: int, limit: int) -> int:
    """Return the start of the longest batch that ends at ``end``; one pair always fits."""
    start = max(int(side.searchsorted(side[end] - limit, side="left")) for side in tokens)
    return max(min(start, end - 1), 0)


def length_buckets(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Group pairs of similar lengths into at most ``MAX_SHAPES`` buckets with the least padding.

    Dynamic programming over distinct lengths. Sources are first scaled to the mean length of
    the targets, so that languages which need different numbers of tokens share a bucket.

    Args:
        source: (N,) source lengths.
        target: (N,) target lengths.

    Returns:
        (N,) bucket of each pair, from 0, by rising length.
    """
    scaled = np.ceil(source * (target.mean() / source.mean())).astype(np.int64)
    lengths, pairs = np.unique(np.maximum(scaled, target), return_counts=True)
    before = np.concatenate([[0], np.cumsum(pairs)])  # pairs in lengths[:i]
    # cost[i, j]: padded tokens of a bucket that holds lengths[i:j + 1].
    cost = np.triu((before[None, 1:] - before[:-1, None]) * lengths[None, :]).astype(float)
    cost[np.tril_indices(len(lengths), -1)] = np.inf
    best, choices = cost[0], []
    for _ in range(min(MAX_SHAPES, len(lengths)) - 1):
        # One more bucket: the last one begins at i, the others are optimal for lengths[:i].
        table = np.concatenate([[np.inf], best[:-1]])[:, None] + cost
        choices.append(table.argmin(axis=0))
        best = table.min(axis=0)
    firsts = [len(lengths)]
    for choice in reversed(choices):
        firsts.append(int(choice[firsts[-1] - 1]))
    edges = lengths[np.array(firsts[::-1]) - 1]  # the greatest length of each bucket
    return np.searchsorted(edges, np.maximum(scaled, target))


def choose_shapes(
    source: np.ndarray, target: np.ndarray, buckets: np.ndarray, limit: int
) -> tuple[tuple[Shape, ...], np.ndarray]:
    """Choose one shape for the batches of each bucket.

    Args:
        source: (N,) source lengths.
        target: (N,) target lengths.
        buckets: (N,) from ``length_buckets``.
        limit: Most positions per side in a batch, including padding.

    Returns:
        The shape of each bucket, and the bounds of the batches in an order sorted by bucket.
    """
    shapes: list[Shape] = []
    bounds = [0]
    for bucket in range(int(buckets.max()) + 1):
        inside = buckets == bucket
        count = int(inside.sum())
        longest = int(source[inside].max()), int(target[inside].max())
        batches = -(-count // max(1, limit // max(longest)))
        rows = -(-count // batches)  # even: most batches have at most one row of padding
        shapes.append((rows, *longest))
        cuts = np.linspace(0, count, batches + 1).astype(int)[1:]
        bounds.extend((bounds[-1] + cuts).tolist())
    return tuple(shapes), np.array(bounds)
