"""Length limits of a search, worked out by hand."""

from __future__ import annotations

import pytest

from keras_transformer.config import SearchConfig


@pytest.mark.parametrize(
    ("options", "source", "limit"),
    [
        ({}, 3, 53),  # 1.0 * 3 + 50
        ({"max_factor": 0.0, "max_extra": 200}, 7, 200),
        ({"max_factor": 3.0, "max_extra": 3}, 4, 15),
        ({"max_factor": 1.5, "max_extra": 2}, 5, 9),  # floor(7.5) + 2
        ({"max_factor": 0.29, "max_extra": 1}, 100, 30),  # 28.999... in floating point
        ({"max_factor": 0.1, "max_extra": 1}, 9, 1),  # floor(0.9) + 1
        ({"max_factor": 3.0, "max_length": 10}, 4, 10),
        ({"max_factor": 3.0, "max_extra": 1, "max_length": 14}, 4, 13),
        ({"max_length": 1}, 0, 1),
    ],
)
def test_length_limit(options, source, limit) -> None:
    assert SearchConfig(**options).length_limit(source) == limit
