"""Activations other than the ReLU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.variants.activations import (
    GeluFeedForward,
    SigmoidGeluFeedForward,
    SiluFeedForward,
    TanhGeluFeedForward,
)

KINDS = [GeluFeedForward, TanhGeluFeedForward, SigmoidGeluFeedForward, SiluFeedForward]


@pytest.mark.parametrize(
    ("kind", "of_one"),
    [
        (GeluFeedForward, 0.841345),  # Φ(1)
        (TanhGeluFeedForward, 0.841192),  # (1 + tanh(0.797885 * 1.044715)) / 2
        (SigmoidGeluFeedForward, 0.845796),  # 1 / (1 + exp(-1.702))
        (SiluFeedForward, 0.731059),  # 1 / (1 + exp(-1))
    ],
)
def test_values_by_hand(kind: type[FeedForward], of_one: float) -> None:
    found = kind(2, 3).activate(tf.constant([-1.0, 0.0, 1.0, 20.0, -20.0]))
    # x g(x) with g(-x) = 1 - g(x).
    np.testing.assert_allclose(found, [of_one - 1, 0.0, of_one, 20.0, 0.0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_harness(kind: type[FeedForward], check_layer: Callable[..., None]) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    check_layer(lambda **options: kind(4, 16, 0.1, **options), x)
