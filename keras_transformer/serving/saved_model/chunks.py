"""Chunked computation of a batch inside a graph, within a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

Compute = Callable[[tf.Tensor], Sequence[tf.Tensor]]


def in_chunks(
    compute: Compute, lengths: tf.Tensor, *, tokens: int, rows: int, empty: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Compute rows in chunks of similar length, longest first, and restore their order.

    The counterpart of ``inference.grouping.batches`` inside a graph. Rows of length 0 are not
    computed: their results are zeros and empty strings.

    Args:
        compute: ``compute(rows (b,) int32) -> results``, each with b rows.
        lengths: (B,) int32, tokens of each row.
        tokens: Greatest number of tokens in a chunk, with padding; a longer row is a chunk of
            its own.
        rows: Greatest number of rows in a chunk.
        empty: For each result a tensor without rows. A dimension that varies between chunks has
            size 0 there; smaller results are padded with zeros.

    Returns:
        The results with B rows each, in the order of ``lengths``.
    """
    batch = tf.size(lengths)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    sorted_lengths = tf.gather(lengths, order)
    filled = tf.math.count_nonzero(lengths, dtype=tf.int32)

    def advance(first: tf.Tensor, results: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        size = tf.clip_by_value(tokens // sorted_lengths[first], 1, rows)
        last = tf.minimum(first + size, filled)
        new_rows = compute(order[first:last])
        return last, [_append(old, new) for old, new in zip(results, new_rows, strict=True)]

    open_shapes = [tf.TensorShape([None, *(size or None for size in e.shape[1:])]) for e in empty]
    _, results = tf.while_loop(
        lambda first, _: first < filled,
        advance,
        (tf.constant(0), list(empty)),
        shape_invariants=(tf.TensorShape([]), open_shapes),
        parallel_iterations=1,  # two chunks at once would take twice the memory
    )
    places = tf.math.invert_permutation(order)
    return [tf.gather(_pad_to(result, [batch]), places) for result in results]


def _append(above: tf.Tensor, below: tf.Tensor) -> tf.Tensor:
    """Concatenate rows, padded to the larger inner dimensions."""
    widest = tf.maximum(tf.shape(above), tf.shape(below))
    inner = [widest[axis] for axis in range(1, above.shape.rank)]
    return tf.concat([_pad_to(part, [tf.shape(part)[0], *inner]) for part in (above, below)], 0)


def _pad_to(tensor: tf.Tensor, sizes: Sequence[tf.Tensor]) -> tf.Tensor:
    """Pad the first dimensions of ``tensor`` with zeros to ``sizes``."""
    missing = tf.stack(sizes) - tf.shape(tensor)[: len(sizes)]
    rest = tf.zeros([tensor.shape.rank - len(sizes)], tf.int32)
    after = tf.concat([missing, rest], 0)
    padded = tf.pad(tensor, tf.stack([tf.zeros_like(after), after], axis=1))
    padded.set_shape([None, *(size or None for size in tensor.shape[1:])])
    return padded
