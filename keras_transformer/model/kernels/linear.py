"""The linear map that projections and dense layers share."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def project(x: tf.Tensor, kernel: Any, bias: Any = None) -> tf.Tensor:
    """x @ kernel + bias over the last axis.

    It is one flat product: a batched one would make the kernel's gradient out of B
    matrices that are added up afterwards.

    Args:
        x: (B, T, I), or flat (R, I).
        kernel: (I, O).
        bias: (O,), or None.

    Returns:
        (B, T, O), or (R, O).
    """
    # Keras casts variables inside a layer's `__call__` only; a search step is outside.
    kernel = tf.cast(tf.convert_to_tensor(kernel), x.dtype)
    flat = x if x.shape.rank == 2 else tf.reshape(x, [-1, kernel.shape[0]])
    flat = tf.matmul(flat, kernel)
    if bias is not None:
        flat = tf.nn.bias_add(flat, tf.cast(tf.convert_to_tensor(bias), x.dtype))
    if x.shape.rank == 2:
        return flat
    shape = tf.shape(x)
    return tf.reshape(flat, [shape[0], shape[1], kernel.shape[1]])
