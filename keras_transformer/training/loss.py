"""Label-smoothed cross-entropy over real tokens (section 5.4).

With smoothing e and V words the target distribution is (1 - e) on the right word plus
e / V on every word. For logits z = h Eᵀ that gives, without a one-hot tensor,

    loss = logsumexp(z) - (1 - e) z[label] - e mean(z),  mean(z) = h · mean(E).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

# Rows projected at once. It bounds memory at 2 * ROWS * V floats, whatever the batch,
# and costs no time: the products stay large.
ROWS = 1024


class TokenLoss(NamedTuple):
    """Sums over real tokens, to be divided once, after everything has been added up."""

    loss: tf.Tensor  # () float32, what is minimised
    log_loss: tf.Tensor  # () float32, -log P(label), for perplexity; has no gradient
    tokens: tf.Tensor  # () float32, number of real tokens


def projected_loss(
    features: tf.Tensor, matrix: Any, labels: tf.Tensor, smoothing: float, pad: int = 0
) -> TokenLoss:
    """Project the features of real tokens to logits and sum their loss.

    The gradient is worked out along with the loss, so that logits are touched as rarely
    as can be and never kept: the projection and its softmax are the larger part of a
    small model's step.

    Args:
        features: (B, T, D) decoder output.
        matrix: (V, D) output projection.
        labels: (B, T) ids, ``pad`` where nothing is to be predicted.
        smoothing: Mass spread evenly over the vocabulary.
        pad: The id of padding.
    """
    flat = tf.reshape(labels, [-1])
    real = tf.where(flat != pad)[:, 0]  # (N,)
    # Without the rows of padding neither product nor softmax is spent on them.
    rows = tf.gather(tf.reshape(features, [-1, features.shape[-1]]), real)  # (N, D)
    matrix = tf.convert_to_tensor(matrix)
    loss, log_loss = _fused(
        tf.cast(rows, features.dtype),
        tf.cast(matrix, features.dtype),
        tf.gather(flat, real),
        smoothing,
    )
    return TokenLoss(loss, tf.stop_gradient(log_loss), tf.cast(tf.size(real), tf.float32))


def _fused(
    rows: tf.Tensor, matrix: tf.Tensor, labels: tf.Tensor, smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sum of loss and of -log P over rows (N, D), with the gradient of the loss."""

    @tf.custom_gradient
    def compute(rows: tf.Tensor, matrix: tf.Tensor) -> Any:
        wide_rows, wide_matrix = tf.cast(rows, tf.float32), tf.cast(matrix, tf.float32)
        log_sums, row_terms, matrix_terms = _softmax_terms(rows, matrix)
        right = tf.gather(wide_matrix, labels)  # (N, D)
        mean = tf.reduce_mean(wide_matrix, axis=0)  # (D,)
        right_logits = tf.reduce_sum(wide_rows * right, axis=1)  # (N,)
        mean_logits = tf.linalg.matvec(wide_rows, mean)  # (N,)
        loss = log_sums - (1 - smoothing) * right_logits - smoothing * mean_logits

        # d loss / d z = softmax(z) - (1 - e) onehot - e / V; its product with E and with
        # the rows is taken term by term, so that only softmax is ever V wide.
        row_gradient = row_terms - (1 - smoothing) * right - smoothing * mean
        vocabulary = tf.cast(tf.shape(matrix)[0], tf.float32)
        matrix_gradient = tf.tensor_scatter_nd_sub(
            matrix_terms - smoothing / vocabulary * tf.reduce_sum(wide_rows, axis=0),
            labels[:, None],
            (1 - smoothing) * wide_rows,
        )

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return (
                tf.cast(upstream * row_gradient, rows.dtype),
                tf.cast(upstream * matrix_gradient, matrix.dtype),
            )

        return (tf.reduce_sum(loss), tf.reduce_sum(log_sums - right_logits)), gradient

    return compute(rows, matrix)


def _softmax_terms(rows: tf.Tensor, matrix: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """logsumexp(z) (N,), softmax(z) E (N, D) and softmax(z)ᵀ rows (V, D), all float32."""
    count, width = tf.shape(rows)[0], rows.shape[-1]
    # At least one pass, so that a batch without any real token has sums of zero.
    passes = tf.maximum(1, (count + ROWS - 1) // ROWS)

    def body(i: tf.Tensor, sums: Any, row_terms: Any, matrix_terms: tf.Tensor) -> Any:
        some = rows[i * ROWS : (i + 1) * ROWS]  # (C, D)
        logits = tf.cast(tf.matmul(some, matrix, transpose_b=True), tf.float32)  # (C, V)
        highest = tf.reduce_max(logits, axis=1, keepdims=True)
        exponentials = tf.exp(logits - highest)
        total = tf.reduce_sum(exponentials, axis=1, keepdims=True)  # (C, 1)
        # Dividing (C, D) by the total afterwards spares a pass over (C, V).
        narrow = tf.cast(exponentials, rows.dtype)
        products = tf.cast(tf.matmul(narrow, matrix), tf.float32) / total
        scaled = tf.cast(tf.cast(some, tf.float32) / total, rows.dtype)
        outer = tf.cast(tf.matmul(narrow, scaled, transpose_a=True), tf.float32)
        log_sum = (highest + tf.math.log(total))[:, 0]
        return i + 1, sums.write(i, log_sum), row_terms.write(i, products), matrix_terms + outer

    def pieces(shape: list[int | None]) -> tf.TensorArray:
        return tf.TensorArray(tf.float32, size=passes, element_shape=shape, infer_shape=False)

    _, sums, row_terms, matrix_terms = tf.while_loop(
        lambda i, *_: i < passes,
        body,
        (0, pieces([None]), pieces([None, width]), tf.zeros(tf.shape(matrix), tf.float32)),
        parallel_iterations=1,
    )
    return sums.concat(), row_terms.concat(), matrix_terms
