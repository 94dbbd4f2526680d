"""Fused projection and loss, compared with the plain loss."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import fused_loss
from keras_transformer.training.fused_loss import projected_loss
from keras_transformer.training.loss import TokenLoss, label_smoothed_cross_entropy

# B = 3, T = 5, D = 4, V = 7, with 5, 2 and 1 real tokens.
RNG = np.random.default_rng(0)
LABELS = RNG.integers(1, 7, (3, 5))
LABELS[1, 2:] = 0
LABELS[2, 1:] = 0
LABELS = tf.constant(LABELS, tf.int32)
FEATURES = tf.constant(RNG.normal(size=(3, 5, 4)), tf.float32)
BIAS = tf.constant(RNG.normal(size=7), tf.float32)
MATRIX = tf.constant(RNG.normal(size=(7, 4)), tf.float32)


def _plain(
    features: tf.Tensor,
    matrix: tf.Tensor,
    labels: tf.Tensor,
    smoothing: float,
    bias: tf.Tensor | float = 0.0,
) -> TokenLoss:
    logits = tf.einsum("btd,vd->btv", features, matrix) + bias
    return label_smoothed_cross_entropy(logits, labels, smoothing)


def _assert_same(features: tf.Tensor, smoothing: float, **options: bool) -> None:
    """Return the sums, and the gradients of features and matrix."""
    found = []
    for loss in (projected_loss, _plain):
        with tf.GradientTape() as tape:
            tape.watch([features, MATRIX])
            own = options if loss is projected_loss else {}
            result = loss(features, MATRIX, LABELS, smoothing, **own)
        gradients = tape.gradient(result.loss, [features, MATRIX])
        found.append([*result, *map(tf.convert_to_tensor, gradients)])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("fixed_shapes", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_equals_the_plain_loss_with_its_gradients(smoothing: float, fixed_shapes: bool) -> None:
    _assert_same(FEATURES, smoothing, fixed_shapes=fixed_shapes)


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_a_bias_of_the_logits_has_its_gradient(fixed_shapes: bool) -> None:
    found = []
    for loss, options in ((projected_loss, {"fixed_shapes": fixed_shapes}), (_plain, {})):
        with tf.GradientTape() as tape:
            tape.watch([FEATURES, MATRIX, BIAS])
            result = loss(FEATURES, MATRIX, LABELS, 0.1, bias=BIAS, **options)
        gradients = tape.gradient(result.loss, [FEATURES, MATRIX, BIAS])
        found.append([*result, *map(tf.convert_to_tensor, gradients)])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=2e-6)


def test_several_passes_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_loss, "ROWS", 3)  # 8 real rows: passes of 3, 3 and 2
    _assert_same(FEATURES, 0.1)


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_large_logits_stay_finite(fixed_shapes: bool) -> None:
    result = projected_loss(FEATURES * 1e4, MATRIX, LABELS, 0.1, fixed_shapes)
    expected = _plain(FEATURES * 1e4, MATRIX, LABELS, 0.1)
    assert float(result.loss) == pytest.approx(float(expected.loss), rel=1e-5)


def test_a_batch_of_padding_has_no_loss_and_no_gradient() -> None:
    with tf.GradientTape() as tape:
        tape.watch(MATRIX)
        result = projected_loss(FEATURES, MATRIX, tf.zeros_like(LABELS), 0.1)
    assert [float(x) for x in result] == [0, 0, 0]
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(result.loss, MATRIX)), 0)


def test_padding_columns_change_nothing() -> None:
    padded = projected_loss(
        tf.pad(FEATURES, [[0, 0], [0, 3], [0, 0]], constant_values=9.0),
        MATRIX,
        tf.pad(LABELS, [[0, 0], [0, 3]]),
        0.1,
    )
    plain = projected_loss(FEATURES, MATRIX, LABELS, 0.1)
    assert [float(x) for x in padded] == [float(x) for x in plain]


def test_log_loss_has_no_gradient() -> None:
    with tf.GradientTape() as tape:
        tape.watch(FEATURES)
        result = projected_loss(FEATURES, MATRIX, LABELS, 0.1)
    assert tape.gradient(result.log_loss, FEATURES) is None


def test_bfloat16_features_give_a_close_loss_in_float32() -> None:
    exact = projected_loss(FEATURES, MATRIX, LABELS, 0.1)
    rough = projected_loss(tf.cast(FEATURES, tf.bfloat16), MATRIX, LABELS, 0.1)
    assert rough.loss.dtype == tf.float32
    assert float(rough.loss) == pytest.approx(float(exact.loss), rel=2e-2)


def test_labels_that_the_model_rules_out_have_their_true_loss() -> None:
    # P(label) = e^-200 underflows in float32, but -log P, from logits 200 and 0, does not.
    features = tf.constant([[[1.0], [-1.0]]])
    matrix = tf.constant([[0.0], [-200.0], [0.0]])
    result = projected_loss(features, matrix, tf.constant([[1, 2]]), 0.0)
    # Logits (0, -200, 0): 200 + ln 2. Logits (0, 200, 0): 200.
    assert float(result.loss) == pytest.approx(400 + np.log(2.0), rel=1e-6)
    assert float(result.log_loss) == pytest.approx(400 + np.log(2.0), rel=1e-6)
