from __future__ import annotations

import pytest
import tensorflow as tf

from keras_transformer.inference.search.hypotheses import invariants, length_penalty


def test_length_penalty_by_hand():
    # ((5 + 1) / 6)^a = 1; ((5 + 7) / 6)^1 = 2; ((5 + 19) / 6)^0.5 = 2.
    assert length_penalty(tf.constant([1, 7]), 1.0).numpy().tolist() == [1.0, 2.0]
    assert float(length_penalty(tf.constant(19), 0.5)) == pytest.approx(2.0)
    assert length_penalty(tf.constant([1, 7]), 0.0).numpy().tolist() == [1.0, 1.0]


def test_invariants_open_rows_and_what_is_empty():
    shapes = invariants({"cache": tf.zeros([6, 2, 0, 8]), "key": tf.zeros([6])})
    assert shapes["cache"].as_list() == [None, 2, None, 8]
    assert shapes["key"].as_list() == [None]
