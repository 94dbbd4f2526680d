"""Label-smoothed cross-entropy over real tokens (section 5.4)."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.special_tokens import PAD


class TokenLoss(NamedTuple):
    """Sums over real tokens, divided once, after the sum over micro-batches and replicas."""

    loss: tf.Tensor
    """() float32, the training objective."""
    log_loss: tf.Tensor
    """() float32, -log P(label), for perplexity; it has no gradient."""
    tokens: tf.Tensor
    """() float32, number of real tokens."""


def token_losses(logits: tf.Tensor, labels: tf.Tensor, smoothing: float = 0.0) -> tf.Tensor:
    """Return the loss of each token against the label mixed with the uniform distribution.

    With smoothing e and V tokens the target distribution q is (1 - e) onehot(label) + e / V
    (Szegedy et al. 2015), and the loss of a position is -Σ q log P.

    Args:
        logits: (B, T, V).
        labels: (B, T) ids; the loss at ``PAD`` is 0.
        smoothing: e, probability mass spread evenly over the vocabulary.

    Returns:
        (B, T) float32.
    """
    log_p = tf.nn.log_softmax(tf.cast(logits, tf.float32))  # (B, T, V)
    log_loss = -tf.gather(log_p, labels, batch_dims=2)  # (B, T)
    loss = (1 - smoothing) * log_loss - smoothing * tf.reduce_mean(log_p, axis=-1)
    return loss * tf.cast(labels != PAD, tf.float32)


def label_smoothed_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, smoothing: float
) -> TokenLoss:
    """Return the sums of `token_losses` over real tokens, with smoothing and without."""
    return TokenLoss(
        tf.reduce_sum(token_losses(logits, labels, smoothing)),
        tf.stop_gradient(tf.reduce_sum(token_losses(logits, labels))),
        tf.reduce_sum(tf.cast(labels != PAD, tf.float32)),
    )
