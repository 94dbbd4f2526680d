"""The linear map of projections and dense layers as one flat matrix product.

Why not a batched product, as `keras.layers.Dense` computes it: the gradient of its kernel is B
matrices (I, O), which are summed afterwards.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def project(x: tf.Tensor, kernel: Any, bias: Any = None) -> tf.Tensor:
    """Return x @ kernel + bias over the last axis.

    Args:
        x: (B, T, I), or flat (R, I).
        kernel: (I, O) weights.
        bias: (O,) weights, or None.

    Returns:
        (B, T, O), or (R, O).
    """
    # Keras casts weights only inside a layer's `__call__`, and incremental decoding is outside.
    kernel = tf.cast(tf.convert_to_tensor(kernel), x.dtype)
    flat = x if x.shape.rank == 2 else tf.reshape(x, [-1, kernel.shape[0]])
    flat = tf.matmul(flat, kernel)
    if bias is not None:
        flat = tf.nn.bias_add(flat, tf.cast(tf.convert_to_tensor(bias), x.dtype))
    if x.shape.rank == 2:
        return flat
    shape = tf.shape(x)
    return tf.reshape(flat, [shape[0], shape[1], kernel.shape[1]])  # (B, T, O)
