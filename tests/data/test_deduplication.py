"""Deduplication: the same result as a Python set in less memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data.deduplication import Deduplicator


def test_repeated_keys_by_hand() -> None:
    deduplicator = Deduplicator()

    assert deduplicator.add(np.array([5, -3, 5])).tolist() == [False, False, True]
    assert deduplicator.add(np.array([7, -3])).tolist() == [False, True]
    assert deduplicator.add(np.array([], np.int64)).tolist() == []
    assert deduplicator.add(np.array([7, 5, 8, -3])).tolist() == [True, True, False, True]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40), max_size=30)))
def test_it_agrees_with_a_python_set(calls: list[list[int]]) -> None:
    deduplicator, known = Deduplicator(), set()
    for keys in calls:
        expected = []
        for key in keys:
            expected.append(key in known)
            known.add(key)
        assert deduplicator.add(np.array(keys, np.int64)).tolist() == expected


def test_a_key_takes_eight_bytes_in_few_arrays() -> None:
    deduplicator = Deduplicator()
    generator = np.random.default_rng(0)
    for _ in range(200):
        deduplicator.add(generator.integers(-(2**63), 2**63 - 1, 1_000))

    assert sum(array.nbytes for array in deduplicator._arrays) == 8 * 200_000
    assert len(deduplicator._arrays) <= 9  # each at least twice as long as the next
