"""Linear map as a flat matrix product."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from keras_transformer.model.kernels.linear import project

KERNEL = tf.constant([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])  # I = 2, O = 3
BIAS = tf.constant([0.5, 0.0, 1.0])


def test_product_and_gradient_by_hand() -> None:
    # [1, 3] W = [1, 2 + 3, -3], plus the bias [1.5, 5, -2]; [2, 0] W = [2, 4, 0].
    x = tf.constant([[[1.0, 3.0], [2.0, 0.0]]])
    np.testing.assert_allclose(project(x, KERNEL), [[[1.0, 5.0, -3.0], [2.0, 4.0, 0.0]]])
    np.testing.assert_allclose(project(x, KERNEL, BIAS), [[[1.5, 5.0, -2.0], [2.5, 4.0, 1.0]]])
    np.testing.assert_allclose(project(x[0], KERNEL, BIAS), [[1.5, 5.0, -2.0], [2.5, 4.0, 1.0]])


def test_weights_are_cast_to_the_type_of_the_features() -> None:
    output = project(tf.ones([1, 1, 2], tf.bfloat16), KERNEL, BIAS)
    assert output.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(output, tf.float32), [[[1.5, 3.0, 0.0]]])


def test_a_graph_with_unknown_sizes_equals_the_batched_product() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, None, 2])])
    def gradients(x: tf.Tensor) -> list[tf.Tensor]:
        found = []
        for product in (project, lambda x, kernel: x @ kernel):
            with tf.GradientTape() as tape:
                tape.watch(KERNEL)
                y = product(x, KERNEL)
            found += [y, tape.gradient(y, KERNEL, y)]
        return found

    for shape in ((3, 4, 2), (1, 1, 2), (0, 4, 2)):
        y, gradient, expected, expected_gradient = gradients(
            tf.random.stateless_normal(shape, [1, 2])
        )
        assert y.shape == (*shape[:2], 3)
        np.testing.assert_allclose(y, expected, atol=1e-6)
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)
