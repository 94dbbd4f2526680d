"""Stored tables of sinusoids."""

from __future__ import annotations

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.sinusoids import find_rates, sinusoids


def test_values() -> None:
    """d_model 4: the paper's angles are p and p / 100, tensor2tensor's p and p / 10000."""
    paper, other = sinusoids(3, 4, "paper")[2], sinusoids(3, 4, "tensor2tensor")[2]
    np.testing.assert_allclose(paper, [np.sin(2), np.sin(0.02), np.cos(2), np.cos(0.02)])
    np.testing.assert_allclose(other, [np.sin(2), np.sin(2e-4), np.cos(2), np.cos(2e-4)])
    np.testing.assert_array_equal(sinusoids(2, 4, "paper", first=2)[0], paper)


@pytest.mark.parametrize("rates", ["paper", "tensor2tensor"])
def test_rates_are_found_in_float16(rates: str) -> None:
    assert find_rates(sinusoids(512, 16, rates).astype(np.float16), "m", "table") == rates


def test_other_tables_are_refused() -> None:
    table = sinusoids(50, 16, "paper")
    table[49, 3] += 0.01
    with pytest.raises(ConvertError, match="m: table: expected sinusoids"):
        find_rates(table, "m", "table")
