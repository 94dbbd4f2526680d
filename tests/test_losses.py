"""The loss for plain ``fit``, compared with hand-computed values and Keras' own loss."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest

from keras_transformer.losses import LabelSmoothedCrossEntropy, weight_tokens
from keras_transformer.training.loss import token_losses

RANDOM = np.random.default_rng(3)
LOGITS = RANDOM.normal(0.0, 3.0, (2, 3, 5)).astype("float32")
LABELS = np.array([[4, 1, 3], [2, 0, 0]])


def test_two_tokens_by_hand() -> None:
    """Logits 0 and log 3 give probabilities 1/4 and 3/4."""
    logits = np.array([[[0.0, math.log(3)], [0.0, math.log(3)]]], "float32")
    right = -math.log(3 / 4)
    np.testing.assert_allclose(token_losses(logits, np.array([[1, 0]])), [[right, 0]], rtol=1e-6)
    smoothed = 0.8 * right + 0.1 * (math.log(4) - math.log(3) + math.log(4))
    loss = LabelSmoothedCrossEntropy(0.2, reduction="sum")
    assert float(loss([[1, 0]], logits)) == pytest.approx(smoothed)


def test_equal_to_cross_entropy_with_smoothed_one_hot_labels() -> None:
    one_hot = np.eye(5, dtype="float32")[LABELS]
    reference = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.1, reduction="none"
    )
    expected = reference(one_hot, LOGITS).numpy() * (LABELS != 0)
    np.testing.assert_allclose(token_losses(LOGITS, LABELS, 0.1), expected, rtol=1e-5)


def test_weights_give_the_mean_over_real_tokens_whatever_the_padding() -> None:
    loss = LabelSmoothedCrossEntropy(0.1)
    expected = token_losses(LOGITS, LABELS, 0.1).numpy().sum() / 4
    for columns in (0, 5):
        labels = np.pad(LABELS, ((0, 0), (0, columns)))
        logits = np.pad(LOGITS, ((0, 0), (0, columns), (0, 0)), constant_values=7.0)
        _, _, weights = weight_tokens({}, labels)
        assert float(loss(labels, logits, weights)) == pytest.approx(expected, rel=1e-6)
    _, _, weights = weight_tokens({}, np.zeros((1, 2), int))
    assert weights.numpy().tolist() == [[0, 0]]


def test_smoothing_outside_its_range_is_refused_and_the_configuration_returns() -> None:
    with pytest.raises(ValueError, match=r"smoothing: expected 0 <= smoothing < 1, got 1\.0"):
        LabelSmoothedCrossEntropy(1.0)
    config = keras.losses.serialize(LabelSmoothedCrossEntropy(0.2, reduction="sum"))
    assert keras.losses.deserialize(config).get_config()["smoothing"] == 0.2
