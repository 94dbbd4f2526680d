"""A batch of any size, computed in slices that fit into memory, inside a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

Compute = Callable[[tf.Tensor], Sequence[tf.Tensor]]


def in_chunks(
    compute: Compute, lengths: tf.Tensor, *, tokens: int, rows: int, empty: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Compute rows together that are alike in length, the longest first, and restore the order.

    As ``inference.grouping.batches`` for Python. Rows of length 0 are not computed; they get
    zeros and empty strings.

    Args:
        compute: ``compute(rows (b,) int32) -> results``, each with b rows.
        lengths: (B,) int32, tokens of each row.
        tokens: Most tokens of a slice, padding counted; a longer row stands alone.
        rows: Most rows of a slice.
        empty: For each result a tensor without rows. Its other dimensions are 0 where they
            differ from slice to slice; shorter ones are then filled with zeros.

    Returns:
        The results, with B rows each in the order of ``lengths``.
    """
    batch = tf.size(lengths)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    sorted_lengths = tf.gather(lengths, order)
    filled = tf.math.count_nonzero(lengths, dtype=tf.int32)

    def advance(first: tf.Tensor, results: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        size = tf.clip_by_value(tokens // sorted_lengths[first], 1, rows)
        last = tf.minimum(first + size, filled)
        found = compute(order[first:last])
        return last, [_stacked(old, new) for old, new in zip(results, found, strict=True)]

    open_shapes = [tf.TensorShape([None, *(size or None for size in e.shape[1:])]) for e in empty]
    _, results = tf.while_loop(
        lambda first, _: first < filled,
        advance,
        (tf.constant(0), list(empty)),
        shape_invariants=(tf.TensorShape([]), open_shapes),
        parallel_iterations=1,  # two slices at once would take the memory of two
    )
    places = tf.math.invert_permutation(order)
    return [tf.gather(_grown(result, [batch]), places) for result in results]


def _stacked(above: tf.Tensor, below: tf.Tensor) -> tf.Tensor:
    widest = tf.maximum(tf.shape(above), tf.shape(below))
    inner = [widest[axis] for axis in range(1, above.shape.rank)]
    return tf.concat([_grown(part, [tf.shape(part)[0], *inner]) for part in (above, below)], 0)


def _grown(tensor: tf.Tensor, sizes: Sequence[tf.Tensor]) -> tf.Tensor:
    """``tensor`` filled up with zeros to ``sizes`` in its first dimensions."""
    missing = tf.stack(sizes) - tf.shape(tensor)[: len(sizes)]
    rest = tf.zeros([tensor.shape.rank - len(sizes)], tf.int32)
    after = tf.concat([missing, rest], 0)
    grown = tf.pad(tensor, tf.stack([tf.zeros_like(after), after], axis=1))
    grown.set_shape([None, *(size or None for size in tensor.shape[1:])])
    return grown
