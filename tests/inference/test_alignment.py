"""One matrix out of the weights of all layers and heads."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.alignment import attention_matrix

LABELS = tf.constant([[7, 3], [3, 0]])


def layer(*heads):
    """(2, H, 2, 2): the same heads for both sentences."""
    return tf.constant([list(heads)] * 2)


FIRST = layer([[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]])
SECOND = layer([[0.2, 0.8], [1.0, 0.0]], [[0.6, 0.4], [0.0, 1.0]])
LAST = layer([[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([FIRST, SECOND, LAST], [[0.4, 0.6], [0.5, 0.5]]),
        ([FIRST, LAST], [[0.5, 0.5], [0.5, 0.5]]),
        ([LAST], [[0.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_mean_over_heads_of_the_last_layer_but_one(layers, expected) -> None:
    found = attention_matrix(layers, LABELS).numpy()
    np.testing.assert_allclose(found[0], expected, atol=1e-7)
    np.testing.assert_allclose(found[1], [expected[0], [0.0, 0.0]], atol=1e-7)  # padding
