"""Dropout: rate, seeds and repetition."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout, dropout_seed


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.75])
def test_dropped_fraction_and_scale_of_the_rest(rate: float) -> None:
    # An odd number of elements: 201 * 201.
    output = Dropout(rate, seed=1)(tf.ones([201, 201]), training=True).numpy()
    kept = output != 0.0
    np.testing.assert_allclose(output[kept], 1.0 / (1.0 - rate), rtol=1e-4)
    # Within 5 standard deviations of 40,401 coins, in total and for each byte of the random
    # words; the rate of a call is one of the two neighbouring multiples of 1/256.
    deviation = math.sqrt(rate * (1 - rate) / kept.size) + 1 / 256 / 5
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation
    for first in range(4):  # of the four elements per random word
        quarter = kept.ravel()[first::4]
        assert abs(quarter.mean() - (1 - rate)) < 5 * deviation * 2


def test_a_share_between_two_of_256_is_met_over_many_calls() -> None:
    # 0.1 lies between 25/256 and 26/256: each call uses one of these rates.
    layer = Dropout(0.1, seed=1)
    shares = np.array(
        [1 - np.mean(layer(tf.ones([2_000]), training=True).numpy() != 0.0) for _ in range(400)]
    )
    # 800,000 coins and 400 roundings of the rate: within 5 standard deviations.
    deviation = math.sqrt(0.1 * 0.9 / 800_000 + 0.6 * 0.4 / 256**2 / 400)
    assert abs(shares.mean() - 0.1) < 5 * deviation


def test_neighbouring_elements_are_independent() -> None:
    kept = Dropout(0.5, seed=1)(tf.ones([40_000]), training=True).numpy() != 0.0
    for distance in (1, 2, 3, 4):
        both = (kept[:-distance] & kept[distance:]).mean()
        assert abs(both - 0.25) < 5 * math.sqrt(0.25 * 0.75 / kept.size)


def test_no_dropout_outside_of_training_or_at_rate_zero() -> None:
    x = tf.random.stateless_normal([3, 4], [1, 2])
    np.testing.assert_array_equal(Dropout(0.5)(x), x)
    np.testing.assert_array_equal(Dropout(0.5)(x, training=False), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, training=True), x)


def test_each_call_draws_new_masks_and_a_seed_repeats_them() -> None:
    x = tf.ones([100])
    one, two = Dropout(0.5, seed=7), Dropout(0.5, seed=7)
    first = one(x, training=True).numpy()
    assert (one(x, training=True).numpy() != first).any()
    np.testing.assert_array_equal(two(x, training=True), first)
    assert (Dropout(0.5, seed=8)(x, training=True).numpy() != first).any()


def test_without_a_seed_the_global_seed_is_used() -> None:
    drawn = []
    for seed in (3, 3, 4):
        keras.utils.set_random_seed(seed)
        drawn.append(Dropout(0.5)(tf.ones([100]), training=True).numpy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


def test_gradient_is_masked_and_scaled_like_the_input() -> None:
    x = tf.ones([50])
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = Dropout(0.5)(x, training=True)
    np.testing.assert_array_equal(tape.gradient(output, x), output)


def test_output_has_type_and_shape_of_the_input() -> None:
    for dtype, shape in (("bfloat16", [3, 5, 7]), ("float32", [0, 4]), ("float32", [1])):
        output = Dropout(0.5, dtype=dtype)(tf.ones(shape, dtype), training=True)
        assert output.dtype == dtype
        assert output.shape == shape


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_rates_outside_0_to_1_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate: expected 0 <= rate < 1"):
        Dropout(rate)


def test_a_rate_close_to_1_works() -> None:
    assert np.isfinite(Dropout(0.999_999)(tf.ones([10]), training=True)).all()


def test_harness(check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> Dropout:
        return Dropout(0.25, seed=3, **options)

    check_layer(make, np.ones((2, 3, 4), "float32"))


def test_dropout_seed_determines_the_masks() -> None:
    x = tf.ones([100])
    one, two = Dropout(0.5, seed=7), Dropout(0.5, seed=8)
    drawn = []
    for seed in ((1, 2), (1, 2), (1, 3)):
        with dropout_seed(tf.constant(seed)):
            drawn.append(one(x, training=True).numpy())
            np.testing.assert_array_equal(one(x, training=True), drawn[-1])  # called again
            assert (two(x, training=True).numpy() != drawn[-1]).any()
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()
    # Outside the block, the generator continues as if it had not been used.
    np.testing.assert_array_equal(one(x, training=True), Dropout(0.5, seed=7)(x, training=True))


def test_a_second_forward_pass_has_the_same_masks() -> None:
    layer = Dropout(0.5, seed=7)
    x = tf.ones([100])

    @tf.function(autograph=False)
    def gradients() -> tuple[tf.Tensor, tf.Tensor]:
        with dropout_seed(tf.constant([1, 2])), tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.recompute_grad(lambda x: layer(x, training=True))(x)
            return y, tape.gradient(y, x)

    y, gradient = gradients()
    np.testing.assert_array_equal(y, gradient)
