"""Sinusoids in another order, with other rates, from another position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.positions import sinusoidal_encoding
from keras_transformer.model.variants.sinusoids import (
    AlternativeSinusoidalEncoding,
    alternative_sinusoids,
)


@pytest.mark.parametrize(
    ("layout", "rates", "expected"),
    [
        # D = 4, position 2. Rates 1 and 1 / 100, or 1 and 1 / 10000.
        ("interleaved", "paper", [0.909297, -0.416147, 0.0199987, 0.999800]),
        ("halves", "paper", [0.909297, 0.0199987, -0.416147, 0.999800]),
        ("interleaved", "tensor2tensor", [0.909297, -0.416147, 0.0002, 1.0]),
        ("halves", "tensor2tensor", [0.909297, 0.0002, -0.416147, 1.0]),
    ],
)
def test_sinusoids_by_hand(layout: Any, rates: Any, expected: list[float]) -> None:
    found = alternative_sinusoids(tf.constant([2]), 4, layout, rates)
    np.testing.assert_allclose(found, [expected], atol=1e-6)


def test_the_first_token_is_at_the_first_position() -> None:
    x = tf.zeros([1, 3, 4])
    layer = AlternativeSinusoidalEncoding(first_position=2)
    np.testing.assert_allclose(layer(x)[0], sinusoidal_encoding(3, 4, first=2), atol=1e-6)
    np.testing.assert_allclose(layer(x, first=5)[0], sinusoidal_encoding(3, 4, first=7), atol=1e-6)


@pytest.mark.slow
def test_harness(check_layer: Callable[..., None]) -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    check_layer(
        lambda **options: AlternativeSinusoidalEncoding(
            "halves", "tensor2tensor", 1, 0.1, **options
        ),
        x,
    )
