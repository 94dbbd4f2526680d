"""Drawing the next token at random, so that a sentence's draw depends on its seed alone.

To each logarithm of a probability a random number of Gumbel's distribution is added, one for
each token of the vocabulary; the largest sum is a draw from the distribution (Gumbel, 1954).
The numbers belong to a seed, a position and a token, not to a place in the batch, and a
rounding error of the network changes a draw only where two sums are equal but for that error.

Shapes: B batch, N samples, R rows (B * N), V vocabulary, K candidates, T tokens so far.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_transformer.inference.search.constraints import BatchConstraints
from keras_transformer.inference.search.hypotheses import INVALID_BELOW, NEG_INF, Hypotheses


@dataclass(frozen=True)
class Sampling:
    """What is drawn from: the model's distribution, sharpened or flattened, without its tail.

    In this order: the rules' tokens are left out, the logarithms are divided by
    ``temperature``, the ``top_k`` most probable tokens are kept, and of these the most
    probable whose share reaches ``top_p``. What is kept is drawn in proportion.

    Raises:
        ValueError: A value is out of range.
    """

    temperature: float = 1.0
    """1 draws as the model says; towards 0 the most probable token always wins."""
    top_k: int = 0
    """Tokens kept; 0 keeps all."""
    top_p: float = 1.0
    """Share of the probability kept: the fewest tokens that have it together."""

    def __post_init__(self) -> None:
        if not 0.0 < self.temperature < math.inf:
            raise ValueError(f"temperature: expected a number above 0, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k: expected 0 (all) or more, got {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p: expected 0 < share <= 1, got {self.top_p}")

    def sharpened(self, logarithms: tf.Tensor) -> tf.Tensor:
        """Relative logarithms at the temperature, the greatest 0."""
        greatest = tf.reduce_max(logarithms, axis=1, keepdims=True)
        return (logarithms - greatest) / self.temperature

    def kept(self, log_probabilities: tf.Tensor) -> tf.Tensor:
        """(R, K): ``sharpened`` values of sorted candidates, ``NEG_INF`` where not kept."""
        allowed = log_probabilities > INVALID_BELOW
        kept = allowed
        if self.top_k:
            kept &= tf.cumsum(tf.cast(allowed, tf.int32), axis=1) <= self.top_k
        sharpened = tf.where(kept, log_probabilities, NEG_INF)
        sharpened = tf.maximum(self.sharpened(sharpened), NEG_INF)
        if self.top_p < 1.0:
            before = tf.cumsum(tf.nn.softmax(sharpened), axis=1, exclusive=True)
            kept &= before < self.top_p  # the first always is
        return tf.where(kept, sharpened, NEG_INF)


@dataclass(frozen=True)
class Draw:
    """The choice of the next token at random."""

    sampling: Sampling
    constraints: BatchConstraints
    seeds: tf.Tensor
    """(R, 2) int32, one for each row."""

    def __call__(
        self, logits: tf.Tensor, tokens: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See ``single.TokenSelector``."""
        sampling = self.sampling
        logits = tf.cast(logits, tf.float32)
        noise = gumbel(self.seeds, position, tf.shape(logits)[1])  # (R, V)
        if sampling.top_k == 0 and sampling.top_p == 1.0:
            # The best in the order of the sums is the draw: nothing need be sorted.
            order = sampling.sharpened(logits) + noise
            found = self.constraints.candidates(logits, 1, tokens, position, order)
            sums = tf.gather(order, found.tokens, batch_dims=1)
        else:
            count = sampling.top_k or logits.shape[1] or tf.shape(logits)[1]
            found = self.constraints.candidates(logits, count, tokens, position)
            sums = sampling.kept(found.log_probabilities)
            sums += tf.gather(noise, found.tokens, batch_dims=1)
        # What is allowed stands above what is not, even if a sum is -inf.
        sums = tf.maximum(sums, tf.float32.min)
        sums = tf.where(found.log_probabilities > INVALID_BELOW, sums, -np.inf)
        best = tf.argmax(sums, axis=1, output_type=tf.int32)
        return (
            tf.gather(found.tokens, best, batch_dims=1),
            tf.gather(found.log_probabilities, best, batch_dims=1),
        )

    def of(self, rows: tf.Tensor) -> Draw:
        """The choice for some of the rows, (r,) int32."""
        return dataclasses.replace(
            self, constraints=self.constraints.of(rows), seeds=tf.gather(self.seeds, rows)
        )


def gumbel(seeds: tf.Tensor, position: tf.Tensor, size: tf.Tensor | int) -> tf.Tensor:
    """Random numbers of the standard Gumbel distribution.

    Args:
        seeds: (R, 2) int32.
        position: () int32; each gives other numbers.
        size: How many for each row.

    Returns:
        (R, size) float32. A row depends on its own seed, on ``position`` and on ``size``.
    """

    def numbers(seed: tf.Tensor) -> tf.Tensor:
        uniform = tf.random.stateless_uniform([size], seed, minval=np.finfo(np.float32).tiny)
        return -tf.math.log(-tf.math.log(uniform))

    # One call a row, logarithms too: the numbers of one call for all rows would depend on the
    # number of rows, and the last bit of a logarithm on its place among them.
    return tf.map_fn(numbers, seeds + tf.stack([0, position]), fn_output_signature=tf.float32)


def row_seeds(seeds: tf.Tensor, samples: int) -> tf.Tensor:
    """(B * N, 2) from (B, 2): a seed for each sample, of which the first is the sentence's."""
    steps = tf.stack([tf.range(samples), tf.zeros([samples], tf.int32)], axis=1)  # (N, 2)
    return tf.reshape(seeds[:, None, :] + steps, [-1, 2])


def grouped(found: Hypotheses) -> Hypotheses:
    """The samples of each sentence in order: finished ones first, then by score."""
    by_score = tf.argsort(found.scores, direction="DESCENDING", stable=True)
    ended = tf.cast(tf.gather(found.finished, by_score, batch_dims=1), tf.int32)
    first = tf.argsort(ended, direction="DESCENDING", stable=True)
    order = tf.gather(by_score, first, batch_dims=1)  # (B, N)
    return Hypotheses(*(tf.gather(values, order, batch_dims=1) for values in found))
