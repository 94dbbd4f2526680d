"""Length penalty and forced scores, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.search.scoring import forced_log_probabilities, length_penalty
from keras_transformer.special_tokens import PAD


def test_length_penalty_by_hand():
    # ((5 + 1) / 6)^a = 1; ((5 + 7) / 6)^1 = 2; ((5 + 19) / 6)^0.5 = 2.
    assert length_penalty(tf.constant([1, 7]), 1.0).numpy().tolist() == [1.0, 2.0]
    assert float(length_penalty(tf.constant(19), 0.5)) == pytest.approx(2.0)
    assert length_penalty(tf.constant([1, 7]), 0.0).numpy().tolist() == [1.0, 1.0]


def test_power_length_penalty_by_hand():
    power = length_penalty(tf.constant([1, 4, 9]), 0.5, "power")
    assert power.numpy().tolist() == [1.0, 2.0, 3.0]
    assert length_penalty(tf.constant([3, 7]), 0.0, "power").numpy().tolist() == [1.0, 1.0]
    for_each = length_penalty(tf.constant([[2], [3]]), tf.constant([1.0, 2.0]), "power")
    assert for_each.numpy().tolist() == [[2.0, 4.0], [3.0, 9.0]]
    # The score of an empty hypothesis, log P = 0, is 0.
    assert float(0.0 / length_penalty(tf.constant(0), 0.6, "power")) == 0.0


def test_forced_log_probabilities_by_hand():
    logits = tf.math.log([[[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.0, 0.5], [1.0, 1.0, 1.0, 1.0]]])
    labels = tf.constant([[2, 3, PAD]])
    got = forced_log_probabilities(logits, labels)
    np.testing.assert_allclose(got.numpy(), [[math.log(0.3), math.log(0.5), 0.0]], rtol=1e-5)
