"""The linear map that projections and dense layers share."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def project(x: tf.Tensor, kernel: Any, bias: Any = None) -> tf.Tensor:
    """x @ kernel + bias over the last axis.

    It is one flat product: a batched one would make the kernel's gradient out of B
    matrices that are added up afterwards.

    Args:
        x: (B, T, I).
        kernel: (I, O).
        bias: (O,), or None.

    Returns:
        (B, T, O).
    """
    # Keras casts variables inside a layer's `__call__` only; a search step is outside.
    kernel = tf.cast(tf.convert_to_tensor(kernel), x.dtype)
    flat = tf.matmul(tf.reshape(x, [-1, kernel.shape[0]]), kernel)
    if bias is not None:
        flat = tf.nn.bias_add(flat, tf.cast(tf.convert_to_tensor(bias), x.dtype))
    if x.shape[1] is not None:  # as the 1 of a search step: nothing to find out in the graph
        return tf.reshape(flat, [-1, x.shape[1], kernel.shape[1]])
    shape = tf.shape(x)
    return tf.reshape(flat, [shape[0], shape[1], kernel.shape[1]])
