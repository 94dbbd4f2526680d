"""Fused output projection and label-smoothed cross-entropy (section 5.4).

Why not projection, then `loss.label_smoothed_cross_entropy`: it keeps the logits (B, T, V) and
their gradient, even at padding, and each operation reads and writes them once more. Here the
forward pass computes the gradient too, from 1,024 rows of logits at a time, and keeps no logits.
For 64 sentences of 64 tokens, a third of them padding, D 256 and V 10,000, that is 0.43 s of
processor time instead of 0.85, and 103 MiB instead of 666 (``benchmarks/kernels.py``).

With smoothing e, V tokens and logits z = h Eᵀ,

    loss = logsumexp(z) - (1 - e) z[label] - e mean(z),  mean(z) = h · mean(E).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer import devices
from keras_transformer.special_tokens import PAD
from keras_transformer.training.loss import TokenLoss

# Rows projected at once. They bound the memory of logits and softmax at 2 * ROWS * V floats, and
# are enough for efficient matrix products. A GPU needs more: about 2 GB with 37,000 tokens.
ROWS = 1024
GPU_ROWS = 4096


def rows_of_a_pass() -> int:
    """Return the rows that are projected at once on the device of this process."""
    return GPU_ROWS if devices.has_gpu() else ROWS


def projected_loss(
    features: tf.Tensor,
    matrix: Any,
    labels: tf.Tensor,
    smoothing: float,
    fixed_shapes: bool = False,
    bias: Any = None,
) -> TokenLoss:
    """Project the features of real tokens to logits and sum up the loss.

    Args:
        features: (B, T, D) decoder output.
        matrix: (V, D) output projection.
        labels: (B, T) ids; positions of ``PAD`` do not count.
        smoothing: e, probability mass spread evenly over the vocabulary.
        fixed_shapes: Whether all shapes must depend on input shapes only, as XLA requires.
            Padding is then projected too, with weight 0.
        bias: (V,) bias of the logits, or None.
    """
    matrix = tf.cast(tf.convert_to_tensor(matrix), features.dtype)
    rows = tf.reshape(features, [-1, features.shape[-1]])  # (B * T, D)
    if bias is not None:
        # A bias is one more column of E, for a feature that is always 1: h Eᵀ + b = (h, 1) (E, b)ᵀ.
        column = tf.cast(tf.convert_to_tensor(bias), features.dtype)[:, None]
        matrix = tf.concat([matrix, column], axis=1)  # (V, D + 1)
        rows = tf.pad(rows, [[0, 0], [0, 1]], constant_values=1)  # (B * T, D + 1)
    # Slices of int64 stay on a GPU; those of int32 are made on the host.
    flat = tf.cast(tf.reshape(labels, [-1]), tf.int64)  # (B * T,)
    real = flat != PAD
    if fixed_shapes:
        weights = tf.cast(real, tf.float32)
        loss, log_loss = _fused(rows, matrix, flat, weights, smoothing, _softmax_terms)
    else:
        # Rows of padding take no part in the products and the softmax.
        indices = tf.where(real)[:, 0]  # (N,)
        rows, flat = tf.gather(rows, indices), tf.gather(flat, indices)
        weights = tf.ones_like(flat, tf.float32)
        loss, log_loss = _fused(rows, matrix, flat, weights, smoothing, _softmax_terms_in_passes)
    tokens = tf.reduce_sum(tf.cast(real, tf.float32))
    return TokenLoss(loss, tf.stop_gradient(log_loss), tokens)


class _SoftmaxTerms(NamedTuple):
    """Terms of the loss and its gradient that need the softmax of z = rows Eᵀ, in float32."""

    log_sums: tf.Tensor  # (N,) logsumexp(z)
    for_rows: tf.Tensor  # (N, D) softmax(z) E
    for_matrix: tf.Tensor  # (V, D) (weights softmax(z))ᵀ rows


def _fused(
    rows: tf.Tensor,
    matrix: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    smoothing: float,
    softmax_terms: Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], _SoftmaxTerms],
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the weighted sums of loss and -log P over rows (N, D); the loss has a gradient."""

    @tf.custom_gradient
    def compute(rows: tf.Tensor, matrix: tf.Tensor) -> Any:
        wide_rows, wide_matrix = tf.cast(rows, tf.float32), tf.cast(matrix, tf.float32)
        terms = softmax_terms(rows, matrix, labels, weights)
        label_rows = tf.gather(wide_matrix, labels)  # (N, D)
        mean = tf.reduce_mean(wide_matrix, axis=0)  # (D,)
        label_logits = tf.reduce_sum(wide_rows * label_rows, axis=1)  # (N,)
        mean_logits = tf.linalg.matvec(wide_rows, mean)  # (N,)
        loss = terms.log_sums - (1 - smoothing) * label_logits - smoothing * mean_logits

        # d loss / d z = softmax(z) - (1 - e) onehot(label) - e / V, multiplied by E and by the rows
        # term by term, so that the softmax is the only (N, V) matrix.
        row_gradient = terms.for_rows - (1 - smoothing) * label_rows - smoothing * mean
        weighted_rows = weights[:, None] * wide_rows
        vocabulary = tf.cast(tf.shape(matrix)[0], tf.float32)
        matrix_gradient = _subtract_at(
            terms.for_matrix - smoothing / vocabulary * tf.reduce_sum(weighted_rows, axis=0),
            labels,
            (1 - smoothing) * weighted_rows,
        )

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return (
                tf.cast(upstream * weights[:, None] * row_gradient, rows.dtype),
                tf.cast(upstream * matrix_gradient, matrix.dtype),
            )

        log_loss = tf.reduce_sum(weights * (terms.log_sums - label_logits))
        return (tf.reduce_sum(weights * loss), log_loss), gradient

    return compute(rows, matrix)


def _subtract_at(matrix: tf.Tensor, indices: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Subtract rows (N, D) from the rows (N,) of a matrix (V, D); indices may repeat."""
    if devices.has_gpu():  # a scatter adds in no fixed order there; this has a deterministic kernel
        return matrix - tf.math.unsorted_segment_sum(rows, indices, tf.shape(matrix)[0])
    return tf.tensor_scatter_nd_sub(matrix, indices[:, None], rows)


def _softmax_terms(
    rows: tf.Tensor, matrix: tf.Tensor, _: tf.Tensor, weights: tf.Tensor
) -> _SoftmaxTerms:
    """Compute the terms of all rows at once, with operations that XLA fuses."""
    logits = tf.cast(tf.matmul(rows, matrix, transpose_b=True), tf.float32)  # (N, V)
    highest = tf.reduce_max(logits, axis=1, keepdims=True)
    exponentials = tf.exp(logits - highest)
    total = tf.reduce_sum(exponentials, axis=1, keepdims=True)  # (N, 1)
    # Dividing (N, D) instead of (N, V) by the total saves a pass over the larger matrix.
    exponentials = tf.cast(exponentials, rows.dtype)
    for_rows = tf.cast(tf.matmul(exponentials, matrix), tf.float32) / total  # (N, D)
    scaled = tf.cast(rows, tf.float32) * weights[:, None] / total
    scaled = tf.cast(scaled, rows.dtype)
    for_matrix = tf.matmul(exponentials, scaled, transpose_a=True)  # (V, D)
    log_sums = (highest + tf.math.log(total))[:, 0]
    return _SoftmaxTerms(log_sums, for_rows, tf.cast(for_matrix, tf.float32))


def _softmax_terms_of_pass(
    rows: tf.Tensor, matrix: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> _SoftmaxTerms:
    """Compute the terms of one pass, with oneDNN's or cuDNN's softmax: fewer passes over logits."""
    logits = tf.cast(tf.matmul(rows, matrix, transpose_b=True), tf.float32)  # (N, V)
    softmax, log_sums = (_softmax_on_gpu if devices.has_gpu() else _softmax)(logits, labels)
    softmax = tf.cast(softmax, rows.dtype)
    scaled = rows * tf.cast(weights, rows.dtype)[:, None]
    for_rows = tf.cast(tf.matmul(softmax, matrix), tf.float32)  # (N, D)
    for_matrix = tf.matmul(softmax, scaled, transpose_a=True)  # (V, D)
    return _SoftmaxTerms(log_sums, for_rows, tf.cast(for_matrix, tf.float32))


def _softmax(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return softmax(z) (N, V) and logsumexp(z) (N,) of logits (N, V)."""
    softmax = tf.nn.softmax(logits)
    label_logits, probability = (tf.gather(x, labels, batch_dims=1) for x in (logits, softmax))
    # logsumexp(z) = z[label] - log P(label), unless P is close to the smallest float.
    log_sums = tf.cond(
        tf.reduce_all(probability > 1e-30),
        lambda: label_logits - tf.math.log(probability),
        lambda: tf.reduce_logsumexp(logits, axis=1),
    )
    return softmax, log_sums


def _softmax_on_gpu(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the same as `_softmax` without a condition, for which a GPU would stop."""
    log_softmax = tf.nn.log_softmax(logits)
    label_logits, log_p = (tf.gather(x, labels, batch_dims=1) for x in (logits, log_softmax))
    return tf.exp(log_softmax), label_logits - log_p


def _softmax_terms_in_passes(
    rows: tf.Tensor, matrix: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> _SoftmaxTerms:
    """Compute the terms of all rows, in passes."""
    size = rows_of_a_pass()
    # At least one pass, for a batch without real tokens, whose sums are 0.
    passes = tf.maximum(1, (tf.shape(rows)[0] + size - 1) // size)

    def body(i: tf.Tensor, log_sums: Any, for_rows: Any, for_matrix: tf.Tensor) -> Any:
        part = slice(i * size, (i + 1) * size)
        terms = _softmax_terms_of_pass(rows[part], matrix, labels[part], weights[part])
        return (
            i + 1,
            log_sums.write(i, terms.log_sums),
            for_rows.write(i, terms.for_rows),
            for_matrix + terms.for_matrix,
        )

    def array(shape: list[int | None]) -> tf.TensorArray:
        return tf.TensorArray(tf.float32, size=passes, element_shape=shape, infer_shape=False)

    _, log_sums, for_rows, for_matrix = tf.while_loop(
        lambda i, *_: i < passes,
        body,
        (
            0,
            array([None]),
            array([None, rows.shape[-1]]),
            tf.zeros(tf.shape(matrix), tf.float32),
        ),
        parallel_iterations=1,
    )
    return _SoftmaxTerms(log_sums.concat(), for_rows.concat(), for_matrix)
