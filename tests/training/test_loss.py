from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import loss as losses
from keras_transformer.training.loss import projected_loss


def reference(features, matrix, labels, smoothing):
    """The definition, with a one-hot tensor."""
    logits = tf.matmul(tf.reshape(features, [-1, features.shape[-1]]), matrix, transpose_b=True)
    flat = tf.reshape(labels, [-1])
    size = matrix.shape[0]
    wanted = (1 - smoothing) * tf.one_hot(flat, size) + smoothing / size
    real = tf.cast(flat != 0, tf.float32)
    log_p = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.reduce_sum(wanted * log_p, axis=1) * real)


def some(rows=(3, 5), width=4, size=7, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(1, size, rows)
    labels[0, 2:] = 0
    labels[2, 1:] = 0
    features = tf.constant(rng.normal(size=(*rows, width)), tf.float32)
    matrix = tf.Variable(tf.constant(rng.normal(size=(size, width)), tf.float32))
    return features, matrix, tf.constant(labels, tf.int32)


def test_a_case_worked_out_by_hand() -> None:
    # Logits (0, ln 3) give P = (1/4, 3/4). Label 1, smoothing 0.2 over 2 words:
    # 0.9 * -ln 0.75 + 0.1 * -ln 0.25 = 0.258914 + 0.138629 = 0.397543.
    features = tf.constant([[[1.0]]])
    matrix = tf.constant([[0.0], [np.log(3.0)]], tf.float32)
    result = projected_loss(features, matrix, tf.constant([[1]]), 0.2)
    assert float(result.loss) == pytest.approx(0.397543, abs=1e-5)
    assert float(result.log_loss) == pytest.approx(0.287682, abs=1e-5)  # -ln 0.75
    assert float(result.tokens) == 1


@pytest.mark.parametrize("fixed_shapes", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_equals_the_definition_with_its_gradients(smoothing: float, fixed_shapes: bool) -> None:
    features, matrix, labels = some()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(features)
        result = projected_loss(features, matrix, labels, smoothing, fixed_shapes=fixed_shapes)
        wanted = reference(features, matrix, labels, smoothing)
    assert float(result.loss) == pytest.approx(float(wanted), rel=1e-6)
    assert float(result.tokens) == 2 + 5 + 1
    for variable in (features, matrix):
        ours = tf.convert_to_tensor(tape.gradient(result.loss, variable))
        theirs = tf.convert_to_tensor(tape.gradient(wanted, variable))
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_several_passes_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    features, matrix, labels = some()
    whole = projected_loss(features, matrix, labels, 0.1)
    monkeypatch.setattr(losses, "ROWS", 3)  # 8 real rows: passes of 3, 3 and 2
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(features)
        parts = projected_loss(features, matrix, labels, 0.1)
        wanted = reference(features, matrix, labels, 0.1)
    assert float(parts.loss) == pytest.approx(float(whole.loss), rel=1e-6)
    for variable in (features, matrix):
        ours = tf.convert_to_tensor(tape.gradient(parts.loss, variable))
        np.testing.assert_allclose(
            ours, tf.convert_to_tensor(tape.gradient(wanted, variable)), atol=2e-6
        )


def test_agrees_with_keras_label_smoothing() -> None:
    features, matrix, labels = some()
    logits = tf.matmul(tf.reshape(features, [-1, 4]), matrix, transpose_b=True)
    keras_loss = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.1, reduction="sum"
    )
    flat = tf.reshape(labels, [-1])
    weights = tf.cast(flat != 0, tf.float32)
    wanted = keras_loss(tf.one_hot(flat, 7), logits, sample_weight=weights)
    result = projected_loss(features, matrix, labels, 0.1)
    assert float(result.loss) == pytest.approx(float(wanted), rel=1e-6)


def test_a_batch_of_padding_alone_has_no_loss_and_no_gradient() -> None:
    features, matrix, labels = some()
    with tf.GradientTape() as tape:
        result = projected_loss(features, matrix, tf.zeros_like(labels), 0.1)
    assert (float(result.loss), float(result.log_loss), float(result.tokens)) == (0, 0, 0)
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(result.loss, matrix)), 0)


def test_padding_columns_change_nothing() -> None:
    features, matrix, labels = some()
    padded = projected_loss(
        tf.pad(features, [[0, 0], [0, 3], [0, 0]], constant_values=9.0),
        matrix,
        tf.pad(labels, [[0, 0], [0, 3]]),
        0.1,
    )
    plain = projected_loss(features, matrix, labels, 0.1)
    assert [float(x) for x in padded] == [float(x) for x in plain]


def test_large_logits_stay_finite() -> None:
    features, matrix, labels = some()
    result = projected_loss(features * 1e4, matrix, labels, 0.1)
    wanted = reference(features * 1e4, matrix, labels, 0.1)
    assert float(result.loss) == pytest.approx(float(wanted), rel=1e-5)


def test_bfloat16_features_give_a_close_loss_in_float32() -> None:
    features, matrix, labels = some()
    exact = projected_loss(features, matrix, labels, 0.1)
    rough = projected_loss(tf.cast(features, tf.bfloat16), matrix, labels, 0.1)
    assert rough.loss.dtype == tf.float32
    assert float(rough.loss) == pytest.approx(float(exact.loss), rel=2e-2)


def test_labels_that_the_model_rules_out_have_their_true_loss() -> None:
    # P(label) = e^-200 is no float32 any more; -log P is, worked out from logits 200 and 0.
    features = tf.constant([[[1.0], [-1.0]]])
    matrix = tf.constant([[0.0], [-200.0], [0.0]])
    result = projected_loss(features, matrix, tf.constant([[1, 2]]), 0.0)
    # Logits (0, -200, 0): 200 + ln 2. Logits (0, 200, 0): 200.
    assert float(result.loss) == pytest.approx(400 + np.log(2.0), rel=1e-6)
    assert float(result.log_loss) == pytest.approx(400 + np.log(2.0), rel=1e-6)
