"""Hypotheses, the result of every search.

Shapes: B batch, N hypotheses of each sentence, L tokens returned.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

# Stands for log 0. It is finite, because -inf * 0 and -inf - -inf are NaN, and so large that
# no sum of real log-probabilities comes near it: below INVALID_BELOW there is no hypothesis.
NEG_INF = -1e9
INVALID_BELOW = NEG_INF / 2


class Hypotheses(NamedTuple):
    """N hypotheses for each sentence of a batch, the best first.

    Finished hypotheses come before unfinished ones. If a search has fewer than N hypotheses,
    the last places are empty: length 0, log-probability and score -1e9.
    """

    tokens: tf.Tensor
    """(B, N, L) int32, int64 during the search: the tokens with END, without START, padded."""
    lengths: tf.Tensor
    """(B, N) int32, int64 during the search: tokens of each hypothesis, END counted."""
    scores: tf.Tensor
    """(B, N) float32: log-probability over length penalty."""
    log_probabilities: tf.Tensor
    """(B, N) float32: natural logarithm of P(tokens | source)."""
    finished: tf.Tensor
    """(B, N) bool: False if the length limit came before END."""


def empty_hypotheses(batch: tf.Tensor, n_best: int) -> Hypotheses:
    """Return ``n_best`` empty places for each of ``batch`` sentences, (), with L = 0."""
    scores = tf.fill([batch, n_best], NEG_INF)
    return Hypotheses(
        tokens=tf.zeros([batch, n_best, 0], tf.int64),
        lengths=tf.zeros([batch, n_best], tf.int64),
        scores=scores,
        log_probabilities=scores,
        finished=tf.zeros([batch, n_best], tf.bool),
    )
