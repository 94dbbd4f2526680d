"""LSTM cells, alone and over whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.model.variants.lstm import LstmCell, lstm_step, run_lstm
from tests.model.variants.helpers import normal


def test_a_step_by_hand() -> None:
    # Open input and output gates, a closed forget gate: the cell is tanh(0.5), c is forgotten.
    gates = tf.constant([[100.0, -100.0, 0.5, 100.0]])
    hidden, cell = lstm_step(gates, tf.constant([[7.0]]))
    np.testing.assert_allclose(cell, [[np.tanh(0.5)]], rtol=1e-6)
    np.testing.assert_allclose(hidden, [[np.tanh(np.tanh(0.5))]], rtol=1e-6)
    # A closed input gate: the cell stays. A half-open output gate: half of tanh(c).
    hidden, cell = lstm_step(tf.constant([[-100.0, 100.0, 0.5, 0.0]]), tf.constant([[0.25]]))
    np.testing.assert_allclose(cell, [[0.25]], rtol=1e-6)
    np.testing.assert_allclose(hidden, [[np.tanh(0.25) / 2]], rtol=1e-6)


def test_only_the_forget_gate_begins_with_a_bias() -> None:
    cell = LstmCell(3, 2)
    cell.build()
    assert cell.bias.numpy().tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


def test_equals_the_layer_of_keras() -> None:
    cell, peer = LstmCell(3, 4), keras.layers.LSTM(4, return_sequences=True)
    cell.build()
    cell.bias.assign(normal(16))
    x, zeros = normal(2, 5, 3), tf.zeros([2, 4])
    peer(x)
    peer.set_weights(cell.get_weights())
    np.testing.assert_allclose(run_lstm(cell, x, zeros, zeros), peer(x), atol=1e-6)


def test_a_sequence_is_its_steps() -> None:
    cell = LstmCell(3, 4)
    cell.build()
    x, hidden, memory = normal(2, 5, 3), normal(2, 4, seed=1), normal(2, 4, seed=2)
    states = run_lstm(cell, tf.constant(x), tf.constant(hidden), tf.constant(memory))
    for position in range(5):
        hidden, memory = cell(x[:, position], hidden, memory)
        np.testing.assert_allclose(states[:, position], hidden, atol=1e-6)


def test_layer(check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> LstmCell:
        return LstmCell(3, 4, **options)

    check_layer(make, normal(2, 3), normal(2, 4), normal(2, 4))
