"""Label-smoothed cross-entropy, compared with its definition."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training.loss import label_smoothed_cross_entropy


def test_loss_of_two_tokens_by_hand() -> None:
    # Logits (0, ln 3) give P = (1/4, 3/4). Label 1, smoothing 0.2 over 2 tokens:
    # 0.9 * -ln 0.75 + 0.1 * -ln 0.25 = 0.258914 + 0.138629 = 0.397543.
    logits = tf.constant([[[0.0, np.log(3.0)]]], tf.float32)
    result = label_smoothed_cross_entropy(logits, tf.constant([[1]]), 0.2)
    assert float(result.loss) == pytest.approx(0.397543, abs=1e-5)
    assert float(result.log_loss) == pytest.approx(0.287682, abs=1e-5)  # -ln 0.75
    assert float(result.tokens) == 1


def test_padding_does_not_count() -> None:
    logits = tf.random.stateless_normal([2, 3, 5], [1, 2])
    labels = tf.constant([[1, 4, 0], [2, 0, 0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        result = label_smoothed_cross_entropy(logits, labels, 0.1)
    assert float(result.tokens) == 3
    alone = [
        label_smoothed_cross_entropy(logits[:1, :2], labels[:1, :2], 0.1),
        label_smoothed_cross_entropy(logits[1:, :1], labels[1:, :1], 0.1),
    ]
    assert float(result.loss) == pytest.approx(sum(float(part.loss) for part in alone), rel=1e-6)
    gradient = tape.gradient(result.loss, logits).numpy()
    assert not gradient[0, 2].any()
    assert not gradient[1, 1:].any()
    assert gradient[0, :2].any(axis=-1).all()


def test_gradient_is_softmax_minus_target_distribution() -> None:
    logits = tf.random.stateless_normal([1, 1, 4], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        result = label_smoothed_cross_entropy(logits, tf.constant([[2]]), 0.2)
    # q = 0.8 onehot(2) + 0.2 / 4.
    expected = tf.nn.softmax(logits)[0, 0] - np.array([0.05, 0.05, 0.85, 0.05])
    np.testing.assert_allclose(tape.gradient(result.loss, logits)[0, 0], expected, atol=1e-6)


def test_log_loss_has_no_gradient() -> None:
    logits = tf.random.stateless_normal([1, 1, 4], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        result = label_smoothed_cross_entropy(logits, tf.constant([[2]]), 0.2)
    assert tape.gradient(result.log_loss, logits) is None


def test_agrees_with_keras() -> None:
    logits = tf.random.stateless_normal([3, 5, 7], [1, 2])
    labels = tf.constant(np.random.default_rng(0).integers(0, 7, (3, 5)))
    theirs = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.1, reduction="sum"
    )
    real = tf.cast(labels != 0, tf.float32)
    expected = theirs(tf.one_hot(labels, 7), logits, sample_weight=real)
    result = label_smoothed_cross_entropy(logits, labels, 0.1)
    assert float(result.loss) == pytest.approx(float(expected), rel=1e-6)
