"""Rows of embeddings and biases in the order of our ids."""

from __future__ import annotations

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.vocabulary_rows import LACKING_BIAS, NONE, VocabularyRows

MATRIX = np.array([[1, 1], [2, 2], [3, 3]], np.float16)


def test_rows_are_permuted() -> None:
    rows = VocabularyRows([2, 0, 1], 3)
    assert rows.embedding(MATRIX)[:, 0].tolist() == [3, 1, 2]
    assert rows.projection(MATRIX)[:, 0].tolist() == [3, 1, 2]
    assert rows.output_bias(np.array([0.5, 1.5, 2.5])).tolist() == [2.5, 0.5, 1.5]
    assert rows.embedding(MATRIX).dtype == np.float16


def test_lacking_tokens_have_zeros_and_draw_no_probability() -> None:
    rows = VocabularyRows([NONE, 1, 0, 0], 3, scored=[NONE, 1, NONE, 0])
    assert rows.embedding(MATRIX)[:, 0].tolist() == [0, 2, 1, 1]
    assert rows.projection(MATRIX)[:, 0].tolist() == [0, 2, 0, 1]
    assert rows.output_bias().tolist() == [LACKING_BIAS, 0, LACKING_BIAS, 0]
    assert np.exp(LACKING_BIAS) < 1e-12


def test_a_row_outside_or_scored_twice_is_refused() -> None:
    with pytest.raises(ConvertError, match="expected ids 0 to 2, got 3"):
        VocabularyRows([0, 3], 3)
    with pytest.raises(ConvertError, match="expected each id once"):
        VocabularyRows([0, 0], 3)
