"""Sub-layers without residual connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.variants.ablations.no_residual import NoResidualConnection


def test_by_hand() -> None:
    # The sub-layer gives [1, 5], of mean 3 and deviation 2; with x, it would be [9, 5].
    x = tf.constant([[[8.0, 0.0]]])
    output = NoResidualConnection()(x, sublayer=lambda y: tf.constant([[[1.0, 5.0]]]) + 0 * y)
    np.testing.assert_allclose(output, [[[-1.0, 1.0]]], atol=1e-5)


@pytest.mark.slow
def test_harness(check_layer: Callable[..., None]) -> None:
    def call(layer: Any, x: Any, **options: Any) -> Any:
        return layer(x, sublayer=lambda y: 2.0 * y, **options)

    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(lambda **options: NoResidualConnection(0.1, **options), x, call=call)
