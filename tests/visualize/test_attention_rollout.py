"""Attention rollout by hand."""

from __future__ import annotations

import numpy as np
import pytest

from keras_transformer.visualize.attention_rollout import rollout


def test_two_layers_by_hand() -> None:
    first = np.array([[[1, 0], [1, 0]], [[1, 0], [0, 1]]], np.float32)  # mean [[1, 0], [.5, .5]]
    second = np.array([[[0, 1], [0, 1]]], np.float32)

    # [[.5, .5], [0, 1]] @ [[1, 0], [.25, .75]]
    np.testing.assert_allclose(rollout([first, second]), [[0.625, 0.375], [0.25, 0.75]])


def test_rows_of_a_causal_model_sum_to_1_and_stay_causal() -> None:
    weights = np.tril(np.ones((3, 4, 4), np.float32))
    weights /= weights.sum(-1, keepdims=True)

    found = rollout([weights, weights])

    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-6)
    np.testing.assert_array_equal(np.triu(found, 1), 0)


def test_no_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one layer"):
        rollout([])
