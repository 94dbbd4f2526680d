from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.inference.grouping import batches, padded_ids, parallel_map, windows


@given(
    st.lists(st.integers(1, 40), max_size=60),
    st.integers(1, 100),
    st.integers(1, 8),
)
def test_batches_hold_each_item_once_within_both_limits(lengths, tokens, rows):
    groups = list(batches(lengths, tokens, rows))
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        assert 1 <= len(group) <= rows
        longest = max(lengths[index] for index in group)
        assert len(group) == 1 or len(group) * longest <= tokens


def test_batches_by_hand():
    # Sorted: 9, 4, 4, 3, 1. The first is longer than 8 and a batch of its own; two of 4 fill 8.
    assert list(batches([4, 1, 9, 4, 3], tokens=8, rows=5)) == [[2], [0, 3], [4, 1]]
    assert list(batches([], tokens=8, rows=5)) == []


def test_windows_read_only_their_lines():
    read = []

    def lines():
        for number in range(5):
            read.append(number)
            yield str(number)

    groups = windows(lines(), 2)
    assert next(groups) == ["0", "1"]
    assert read == [0, 1]
    assert list(groups) == [["2", "3"], ["4"]]


def test_a_window_ends_where_no_line_comes_at_once():
    """Of five lines, the third and the fourth come late."""
    read = []

    def lines():
        for number in range(1, 6):
            read.append(number)
            yield str(number)

    groups = windows(lines(), 4, lambda: read[-1] not in (2, 3))
    assert next(groups) == ["1", "2"]
    assert read == [1, 2]
    assert list(groups) == [["3"], ["4", "5"]]


def test_padding():
    assert padded_ids([[5, 3], [6, 7, 3]]).tolist() == [[5, 3, 0], [6, 7, 3]]


@pytest.mark.parametrize("workers", [1, 3])
def test_results_keep_the_order_of_their_items(workers):
    assert list(parallel_map(lambda number: number * number, range(20), workers)) == [
        number * number for number in range(20)
    ]
    assert list(parallel_map(lambda number: number, [], workers)) == []


def test_calls_run_at_the_same_time():
    both = threading.Barrier(2, timeout=20)  # passed only by two calls together
    assert sorted(parallel_map(lambda _: both.wait(), range(2), 2)) == [0, 1]


def test_after_an_error_no_call_starts():
    begun = []

    def compute(number):
        begun.append(number)
        time.sleep(0.05)
        if number == 0:
            raise KeyError(number)

    with pytest.raises(KeyError):
        list(parallel_map(compute, range(50), 2))
    assert len(begun) < 50
