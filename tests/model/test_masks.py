"""Masks: one polarity, made from the ids, of no fixed length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_transformer.model.masks import (
    LookAheadMask,
    PaddingMask,
    look_ahead_mask,
    padding_mask,
)

# Two sentences, the second with two paddings.
IDS = tf.constant([[5, 6, 3], [7, 0, 0]])


def test_padding_is_false_and_tokens_are_true() -> None:
    mask = padding_mask(IDS)
    assert mask.dtype == tf.bool
    assert mask.shape == (2, 1, 1, 3)
    np.testing.assert_array_equal(mask[:, 0, 0], [[True, True, True], [True, False, False]])


def test_look_ahead_sees_itself_and_what_came_before() -> None:
    mask = look_ahead_mask(3)
    assert mask.dtype == tf.bool
    assert mask.shape == (1, 1, 3, 3)
    np.testing.assert_array_equal(
        mask[0, 0], [[True, False, False], [True, True, False], [True, True, True]]
    )


def test_layers_combine_them() -> None:
    np.testing.assert_array_equal(PaddingMask()(IDS), padding_mask(IDS))
    mask = LookAheadMask()(IDS)
    assert mask.shape == (2, 1, 3, 3)
    np.testing.assert_array_equal(mask[0], look_ahead_mask(3)[0])
    # Keys 1 and 2 are padding for every query of the second sentence.
    np.testing.assert_array_equal(mask[1, 0], [[True, False, False]] * 3)


def test_one_layer_serves_any_length() -> None:
    graph = tf.function(LookAheadMask(), input_signature=[tf.TensorSpec([None, None], tf.int32)])
    for length in (1, 4, 7):
        ids = tf.ones([2, length], tf.int32)
        np.testing.assert_array_equal(graph(ids)[0, 0], np.tri(length, dtype=bool))


def test_harness(check_layer: Callable[..., None]) -> None:
    check_layer(PaddingMask, IDS)
    check_layer(LookAheadMask, IDS)
