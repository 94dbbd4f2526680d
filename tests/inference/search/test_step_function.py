"""Shape invariants of states."""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.inference.search.step_function import state_shape_invariants


def test_shape_invariants_leave_rows_and_empty_dimensions_unknown():
    shapes = state_shape_invariants(
        {"cache": tf.zeros([6, 2, 0, 8]), "key": tf.zeros([6]), "filled": tf.constant(0)}
    )
    assert shapes["cache"].as_list() == [None, 2, None, 8]
    assert shapes["key"].as_list() == [None]
    assert shapes["filled"].as_list() == []
