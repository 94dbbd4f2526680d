"""Attention masks: one polarity, any length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_transformer.model.masks import PaddingMask, look_ahead_mask, padding_mask

# Two sentences, the second with two paddings.
IDS = tf.constant([[5, 6, 3], [7, 0, 0]])


def test_padding_is_false_and_tokens_are_true() -> None:
    mask = padding_mask(IDS)
    assert mask.dtype == tf.bool
    assert mask.shape == (2, 1, 1, 3)
    np.testing.assert_array_equal(mask[:, 0, 0], [[True, True, True], [True, False, False]])


def test_look_ahead_allows_the_position_and_earlier_ones() -> None:
    mask = look_ahead_mask(3, 3)
    assert mask.dtype == tf.bool
    assert mask.shape == (1, 1, 3, 3)
    np.testing.assert_array_equal(
        mask[0, 0], [[True, False, False], [True, True, False], [True, True, True]]
    )


def test_look_ahead_from_a_later_position_is_a_part_of_the_whole() -> None:
    whole = look_ahead_mask(7, 7)[0, 0]
    # Queries 4 to 6 and keys 3 to 6: the first query is at position 1, counted from the first key.
    np.testing.assert_array_equal(look_ahead_mask(3, 4, first=1)[0, 0], whole[4:7, 3:7])
    np.testing.assert_array_equal(look_ahead_mask(2, 3, first=-1)[0, 0], whole[2:4, 3:6])


def test_layer_equals_the_function() -> None:
    np.testing.assert_array_equal(PaddingMask()(IDS), padding_mask(IDS))


def test_one_layer_serves_any_length() -> None:
    graph = tf.function(PaddingMask(), input_signature=[tf.TensorSpec([None, None], tf.int32)])
    for length in (1, 4, 7):
        ids = tf.range(length)[None]
        np.testing.assert_array_equal(graph(ids)[0, 0, 0], np.arange(length) > 0)


def test_harness(check_layer: Callable[..., None]) -> None:
    check_layer(PaddingMask, IDS)
