"""Chunks of a batch: grouping of the rows, order of the results."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.serving.saved_model.chunks import in_chunks


def numbers(lengths, tokens=10, rows=4):
    """Return the number of each row, computed in chunks, and the rows of each chunk."""
    chunks: list[list[int]] = []

    def compute(chosen):
        tf.py_function(lambda places: chunks.append(places.numpy().tolist()), [chosen], [])
        return [chosen + 100]

    @tf.function
    def run(lengths):
        return in_chunks(
            compute, lengths, tokens=tokens, rows=rows, empty=[tf.zeros([0], tf.int32)]
        )

    (found,) = run(tf.constant(lengths, tf.int32))
    return found.numpy().tolist(), chunks


def test_chunks_by_hand() -> None:
    # Longest first: 6 alone (12 tokens would be two), then 4 and 3 (2 rows of 4 make 8), then
    # 2, 2, 1 and 1, of which the limit of rows takes 4; the 0 is not computed.
    found, chunks = numbers([2, 6, 0, 4, 1, 3, 2, 1])
    assert chunks == [[1], [3, 5], [0, 6, 4, 7]]
    assert found == [100, 101, 0, 103, 104, 105, 106, 107]


def test_a_row_longer_than_the_limit_is_a_chunk_of_its_own() -> None:
    assert numbers([3, 50, 3])[1] == [[1], [0, 2]]


@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(0, 12), max_size=20))
def test_each_row_once_in_order_within_the_limit(lengths) -> None:
    found, chunks = numbers(lengths)
    assert found == [100 + place if size else 0 for place, size in enumerate(lengths)]
    computed = sorted(place for places in chunks for place in places)
    assert computed == [place for place, size in enumerate(lengths) if size]
    for places in chunks:
        longest = max(lengths[place] for place in places)
        assert len(places) == 1 or len(places) * longest <= 10
        assert len(places) <= 4


@pytest.mark.parametrize("kind", [tf.string, tf.float32])
def test_results_of_different_width_are_padded(kind) -> None:
    widths = tf.constant([1, 3, 2])

    @tf.function
    def run():
        def compute(rows):
            value = tf.constant(["x"]) if kind == tf.string else tf.constant([1.0])
            return [tf.tile(value[None], [1, widths[rows[0]]])]

        empty = [tf.zeros([0, 0], kind)]
        return in_chunks(compute, tf.constant([5, 5, 5]), tokens=5, rows=9, empty=empty)

    (found,) = run()
    none, one = ("", "x") if kind == tf.string else (0.0, 1.0)
    expected = [[one, none, none], [one, one, one], [one, one, none]]
    values = found.numpy().astype(str if kind == tf.string else np.float32)
    assert values.tolist() == expected


def test_an_empty_batch() -> None:
    assert numbers([]) == ([], [])
