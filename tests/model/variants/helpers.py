"""Checks of attention with relative positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return normally distributed float32 values."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def check_positions_are_relative(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check that self-attention, of width 8, depends on the order and not on where it begins.

    Returns:
        Outputs (1, 3, 8) of a sentence, and of its reversal, reversed again.
    """
    x = normal(1, 3, 8)
    forwards = layer(x, x).numpy()
    swapped = x[:, [1, 0, 2]]
    assert np.abs(layer(swapped, swapped).numpy()[:, [1, 0, 2]] - forwards).max() > 1e-3
    # Two paddings before the sentence, masked, move every position and change nothing.
    moved = np.concatenate([normal(1, 2, 8, seed=1), x], axis=1)
    mask = tf.constant([[[[False, False, True, True, True]]]])
    np.testing.assert_allclose(layer(moved, moved, mask)[:, 2:], forwards, atol=1e-5)
    return forwards, layer(x[:, ::-1], x[:, ::-1]).numpy()[:, ::-1]


def check_self_attention(check_layer: Callable[..., None], attention: Callable[..., Any]) -> None:
    """Run the layer harness on self-attention with padding."""

    def call(layer: Any, x: Any, mask: Any, **options: Any) -> Any:
        return layer(x, x, mask, **options)

    mask = tf.constant([[True, True, False], [True, True, True]])[:, None, None, :]
    check_layer(
        lambda **options: attention(6, 2, 4, 5, 0.1, **options), normal(2, 3, 6), mask, call=call
    )
