"""Rotary position embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_transformer.model.variants.rotary import RotaryAttention, rotate
from tests.model.variants.helpers import (
    check_positions_are_relative,
    check_self_attention,
    normal,
)


def test_rotation_by_hand() -> None:
    # One pair, rotated by its position.
    x = tf.reshape(tf.constant([1.0, 0.0] * 3), [1, 1, 3, 2])
    expected = [[math.cos(p), math.sin(p)] for p in range(3)]
    np.testing.assert_allclose(rotate(x)[0, 0], expected, atol=1e-6)


def test_rotation_keeps_norms_and_products_depend_on_distance_only() -> None:
    x = normal(2, 3, 5, 8)
    np.testing.assert_allclose(
        np.linalg.norm(rotate(x, 11), axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5
    )

    def products(first: int) -> tf.Tensor:
        return tf.matmul(rotate(x, first), rotate(x[::-1], first), transpose_b=True)

    np.testing.assert_allclose(products(0), products(40), atol=1e-4)
    unmoved = tf.matmul(x, x[::-1], transpose_b=True)
    assert np.abs(products(0) - unmoved).max() > 0.1


def test_rotation_starts_at_the_given_position() -> None:
    x = normal(1, 2, 6, 4)
    np.testing.assert_allclose(rotate(x[:, :, 4:], 4), rotate(x)[:, :, 4:], atol=1e-6)


def test_attention_depends_on_relative_positions_only() -> None:
    forwards, backwards = check_positions_are_relative(RotaryAttention(8, 2, 4, 4))
    assert np.abs(forwards - backwards).max() > 1e-3


def test_harness(check_layer: Callable[..., None]) -> None:
    check_self_attention(check_layer, RotaryAttention)
