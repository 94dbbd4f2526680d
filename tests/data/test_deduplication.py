"""The compact set: it answers as Python's own does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data.deduplication import Seen


def test_by_hand() -> None:
    seen = Seen()

    assert seen.add(np.array([5, -3, 5])).tolist() == [False, False, True]
    assert seen.add(np.array([7, -3])).tolist() == [False, True]
    assert seen.add(np.array([], np.int64)).tolist() == []
    assert seen.add(np.array([7, 5, 8, -3])).tolist() == [True, True, False, True]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40), max_size=30)))
def test_it_answers_as_a_set_does(calls: list[list[int]]) -> None:
    seen, known = Seen(), set()
    for keys in calls:
        expected = []
        for key in keys:
            expected.append(key in known)
            known.add(key)
        assert seen.add(np.array(keys, np.int64)).tolist() == expected


def test_a_number_takes_about_eight_bytes_in_few_arrays() -> None:
    seen = Seen()
    chance = np.random.default_rng(0)
    for _ in range(200):
        seen.add(chance.integers(-(2**63), 2**63 - 1, 1_000))

    assert sum(run.nbytes for run in seen._runs) == 8 * 200_000
    assert len(seen._runs) <= 9  # each at least twice as long as the next
