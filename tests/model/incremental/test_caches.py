"""Caches of incremental decoding, and masks of their slots."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from keras_transformer.model.incremental import caches
from keras_transformer.model.incremental.caches import DecoderState, KeysValues
from keras_transformer.model.masks import MASK_VALUE

# B = 2 sentences, W = 2 hypotheses, H = 1 head, keys of width 1, values of width 2.
HEADS, BEAM = 1, 2


def _state() -> DecoderState:
    """Return a state before the first step."""
    return DecoderState(
        tf.zeros([2, BEAM, 0]),
        tf.zeros([2, 0], tf.int32),
        tf.constant(0),
        [KeysValues(*(caches.empty_rows(BEAM * width, "float32") for width in (1, 2)))],
        [KeysValues(tf.constant([[1.0], [2.0]]), tf.constant([[3.0], [4.0]]))],
        tf.constant([[5.0], [6.0]]),
    )


def _reserved(state: DecoderState, sentences: list[int], more: int) -> DecoderState:
    return caches.select_and_reserve(state, sentences, more, HEADS, BEAM)


def _seen(state: DecoderState) -> list[list[list[int]]]:
    """Return the slots that each hypothesis attends to."""
    return [
        [np.flatnonzero(row == 0.0).tolist() for row in sentence]
        for sentence in state.visible.numpy()
    ]


def _filled(state: DecoderState, number: float) -> DecoderState:
    """Return the state after a step with keys and values ``number`` plus the slot's index."""
    step = int(state.filled)
    state, _ = caches.begin_step(state, BEAM)
    written = []
    for part in state.self_attention[0]:
        by_slot = part.numpy().reshape(2, -1, BEAM, part.shape[1] // BEAM)  # (B, C, W, K)
        by_slot[:, step] = number + np.arange(BEAM)[:, None]
        written.append(tf.constant(by_slot.reshape(part.shape)))
    return state._replace(self_attention=[KeysValues(*written)])


def test_additive_mask() -> None:
    mask = caches.additive_mask(tf.constant([True, False]))
    np.testing.assert_array_equal(mask, [0.0, MASK_VALUE])


def test_each_hypothesis_attends_to_its_own_slot_of_a_step() -> None:
    state = _reserved(_state(), [0, 1], 2)
    assert _seen(state) == [[[], []], [[], []]]
    state, index = caches.begin_step(state, BEAM)
    assert index.numpy().tolist() == [0, 1, 2, 3]
    assert int(state.filled) == 1
    assert _seen(state) == [[[0], [1]], [[0], [1]]]
    state, index = caches.begin_step(state, BEAM)
    assert index.numpy().tolist() == [-2, -1, 0, 1]
    assert _seen(state) == [[[0, 2], [1, 3]], [[0, 2], [1, 3]]]


def test_a_reordered_hypothesis_keeps_its_slots() -> None:
    state, _ = caches.begin_step(_reserved(_state(), [0, 1], 2), BEAM)
    state = caches.reorder(state, tf.constant([[1, 1], [0, 1]]))
    assert _seen(state) == [[[1], [1]], [[0], [1]]]
    state, _ = caches.begin_step(state, BEAM)
    assert _seen(state) == [[[1, 2], [1, 3]], [[0, 2], [1, 3]]]


def test_slots_of_no_hypothesis_are_dropped() -> None:
    state = _reserved(_state(), [0, 1], 2)
    for number in (10.0, 20.0):
        state = _filled(state, number)
    state = state._replace(positions=tf.constant([[0, 0, 1, 1]] * 2))
    # In the first sentence both continue hypothesis 1, in the second each its own.
    state = caches.reorder(state, tf.constant([[1, 1], [0, 1]]))
    alone = _reserved(state, [0], 1)
    # Slots 1 and 3 stay, of positions 0 and 1: one step of two slots, and one to come.
    assert int(alone.filled) == 1
    assert _seen(alone) == [[[0, 1], [0, 1]]]
    keys, values = alone.self_attention[0]
    np.testing.assert_array_equal(keys.numpy()[0], [11.0, 21.0])
    np.testing.assert_array_equal(values.numpy()[0], [11.0, 11.0, 21.0, 21.0])
    assert keys.shape == (2, 2)
    assert alone.positions.numpy()[:, :2].tolist() == [[0, 1]]
    # The second sentence needs two steps, so the first one is filled up with invisible slots.
    both = _reserved(state, [1, 0], 1)
    assert int(both.filled) == 2
    assert _seen(both) == [[[0, 2], [1, 3]], [[0, 1], [0, 1]]]
    np.testing.assert_array_equal(both.cross_attention[0].keys, [[2.0], [1.0]])
    np.testing.assert_array_equal(both.source_bias, [[6.0], [5.0]])


def test_an_empty_batch_has_no_slots() -> None:
    state = _filled(_reserved(_state(), [0, 1], 1), 10.0)
    empty = _reserved(state, [], 3)
    assert int(empty.filled) == 0
    assert empty.visible.shape == (0, 2, 6)
