"""Metrics without padding, compared with hand-computed values."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest

from keras_transformer.metrics import Perplexity, TokenAccuracy, TokenMean

# Logits 0, 0 and log 2 give probabilities 1/4, 1/4 and 1/2.
LOGITS = np.tile(np.array([0.0, 0.0, math.log(2)], "float32"), (2, 2, 1))
LABELS = np.array([[2, 1], [2, 0]])


@pytest.mark.parametrize(
    ("metric", "first", "both"),
    [
        (TokenAccuracy(), 2 / 3, 3 / 4),
        (Perplexity(), math.exp((2 * math.log(2) + math.log(4)) / 3), math.exp(math.log(32) / 4)),
    ],
)
def test_padding_does_not_count(metric: TokenMean, first: float, both: float) -> None:
    assert float(metric.result()) in (0.0, 1.0)  # nothing yet
    metric.update_state(LABELS, LOGITS)
    assert float(metric.result()) == pytest.approx(first)
    metric.update_state(np.array([[2, 0, 0]]), np.tile(LOGITS[:1, :1], (1, 3, 1)))
    assert float(metric.result()) == pytest.approx(both)
    metric.reset_state()
    metric.update_state(LABELS, LOGITS, sample_weight=np.array([[0.5], [0.0]]))
    assert float(metric.result()) == pytest.approx(
        0.5 if isinstance(metric, TokenAccuracy) else math.sqrt(8)
    )
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(again) is type(metric)
