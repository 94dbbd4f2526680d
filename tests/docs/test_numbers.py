"""The comparison of generated numbers lets rounding pass and nothing else."""

from __future__ import annotations

import pytest

from tests.docs.numbers import differences


def test_rounding_passes() -> None:
    assert differences("| a | 0.123, -1.500 |", "| a | 0.124, -1.499 |") == []
    assert differences("rate 3.12e-05", "rate 3.13e-05") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| a | 0.10 |", "| a | 0.20 |"),
        ("| a | 7 |", "| a | 8 |"),
        ("| a | 0.10 |", "| b | 0.10 |"),
        ("one line", "one line\nand another"),
    ],
)
def test_other_differences_are_found(old: str, new: str) -> None:
    assert len(differences(old, new)) == 1
