"""Length penalty, and log-probabilities of given translations.

Shapes: B batch, T target length, V vocabulary.
"""

from __future__ import annotations

from typing import get_args

import tensorflow as tf

from keras_transformer.config import LengthPenalty
from keras_transformer.special_tokens import PAD


def length_penalty(
    lengths: tf.Tensor, alpha: tf.Tensor | float, form: LengthPenalty = "gnmt"
) -> tf.Tensor:
    """Compute the length penalty, the divisor of log-probabilities.

    Both forms grow with the length, so the penalty at the length limit is the greatest.

    Args:
        lengths: Tokens of hypotheses, END counted; integers of any shape.
        alpha: 0 leaves log-probabilities as they are; larger values favour longer hypotheses.
            A number, or float32 that broadcasts with ``lengths``.
        form: gnmt for ((5 + length) / 6)^alpha, equation 14 of Wu et al. (2016); power for
            length^alpha.

    Returns:
        float32 of their common shape.

    Raises:
        ValueError: ``form`` is unknown.
    """
    length = tf.cast(lengths, tf.float32)
    if form not in get_args(LengthPenalty):
        raise ValueError(f"length_penalty: expected gnmt or power, got {form!r}")
    if form == "power":
        # An empty hypothesis has log-probability 0: its score is 0, not 0 / 0.
        return tf.maximum(length, 1.0) ** alpha
    return ((5.0 + length) / 6.0) ** alpha


def forced_log_probabilities(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Compute the log-probability of each given token after the given tokens before it.

    Args:
        logits: (B, T, V) of any float type, from the full forward pass.
        labels: (B, T) int32, the tokens to score, END last, padded.

    Returns:
        (B, T) float32, 0 at padding: a row's sum is log P(tokens | source).
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )
    return tf.where(labels == PAD, 0.0, -losses)
