"""Order and bounds of batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data.batch_bounds import even_bounds, min_batch_count, sort_by_group


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(-5, 5), st.integers(-4, 4)), min_size=1, max_size=50),
    spread=st.sampled_from([1, 1_000, 2**28]),
)
def test_sorting_is_stable(rows: list[tuple[int, int]], spread: int) -> None:
    group, source = (np.array(rows) * spread).T.astype(np.int32)

    assert sort_by_group(group, source).tolist() == np.lexsort((source, group)).tolist()


def test_bounds_by_hand() -> None:
    # Seven pairs of 2 source and 3 target tokens; 10 target tokens hold three of them.
    tokens = 2 * np.arange(8), 3 * np.arange(8)

    assert min_batch_count(tokens, 10) == 3
    assert even_bounds(tokens, 10, 3).tolist() == [0, 3, 5, 7]
    assert even_bounds(tokens, 10, 7).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert min_batch_count(tokens, 1) == 7  # a longer pair is a batch of its own
