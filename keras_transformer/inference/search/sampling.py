"""Sampling of the next token, reproducible for each sentence by its seed.

The Gumbel-max trick (Gumbel, 1954): add standard Gumbel noise to the log-probability of each
token; the token with the largest sum is a sample. The noise depends on a seed, a position and
a token, not on a place in the batch, and a rounding error of the network changes a sample only
if two sums are equal up to that error.

Shapes: B batch, N samples, R rows (B * N), V vocabulary, K candidates, T tokens so far.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_transformer.devices import has_gpu
from keras_transformer.inference.search.constraints import BatchConstraints
from keras_transformer.inference.search.hypotheses import INVALID_BELOW, NEG_INF, Hypotheses


@dataclass(frozen=True)
class Sampling:
    """Sampling distribution: the model's, after temperature, top-k and top-p, in this order.

    Tokens that the constraints ban are removed first.

    Raises:
        ValueError: A value is out of range.
    """

    temperature: float = 1.0
    """Softmax temperature: below 1 sharpens, above 1 flattens the distribution."""
    top_k: int = 0
    """Sample from this many most probable tokens; 0: all."""
    top_p: float = 1.0
    """Sample from the fewest most probable tokens that together have this probability."""

    def __post_init__(self) -> None:
        if not 0.0 < self.temperature < math.inf:
            raise ValueError(f"temperature: expected a number above 0, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k: expected 0 (all) or more, got {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p: expected 0 < share <= 1, got {self.top_p}")

    def scale(self, logits: tf.Tensor) -> tf.Tensor:
        """Divide (R, K) logits by the temperature, relative to the greatest of each row."""
        greatest = tf.reduce_max(logits, axis=1, keepdims=True)
        return (logits - greatest) / self.temperature

    def truncate(self, log_probabilities: tf.Tensor) -> tf.Tensor:
        """Scale (R, K) sorted candidates; set those outside top-k and top-p to ``NEG_INF``."""
        allowed = log_probabilities > INVALID_BELOW
        kept = allowed
        if self.top_k:
            kept &= tf.cumsum(tf.cast(allowed, tf.int32), axis=1) <= self.top_k
        scaled = tf.where(kept, log_probabilities, NEG_INF)
        scaled = tf.maximum(self.scale(scaled), NEG_INF)
        if self.top_p < 1.0:
            before = tf.cumsum(tf.nn.softmax(scaled), axis=1, exclusive=True)
            kept &= before < self.top_p  # always keeps the first
        return tf.where(kept, scaled, NEG_INF)


@dataclass(frozen=True)
class SamplingSelector:
    """Selection of the next token at random."""

    sampling: Sampling
    constraints: BatchConstraints
    seeds: tf.Tensor
    """(R, 2) int32, one for each row."""

    def __call__(
        self, logits: tf.Tensor, tokens: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        sampling = self.sampling
        logits = tf.cast(logits, tf.float32)
        noise = gumbel(self.seeds, position, tf.shape(logits)[1])  # (R, V)
        if sampling.top_k == 0 and sampling.top_p == 1.0:
            # The token with the largest sum is the sample: no sorting of the vocabulary.
            order = sampling.scale(logits) + noise
            candidates = self.constraints.candidates(logits, 1, tokens, position, order)
            sums = tf.gather(order, candidates.tokens, batch_dims=1)
        else:
            count = sampling.top_k or logits.shape[1] or tf.shape(logits)[1]
            candidates = self.constraints.candidates(logits, count, tokens, position)
            sums = sampling.truncate(candidates.log_probabilities)
            sums += tf.gather(noise, candidates.tokens, batch_dims=1)
        # Allowed tokens rank above the others, even if a sum is -inf.
        sums = tf.maximum(sums, tf.float32.min)
        sums = tf.where(candidates.log_probabilities > INVALID_BELOW, sums, -np.inf)
        best = tf.argmax(sums, axis=1)
        return (
            tf.gather(candidates.tokens, best, batch_dims=1),
            tf.gather(candidates.log_probabilities, best, batch_dims=1),
        )

    def select(self, rows: tf.Tensor) -> SamplingSelector:
        return dataclasses.replace(
            self, constraints=self.constraints.select(rows), seeds=tf.gather(self.seeds, rows)
        )


def gumbel(seeds: tf.Tensor, position: tf.Tensor, size: tf.Tensor | int) -> tf.Tensor:
    """Return standard Gumbel noise.

    Args:
        seeds: (R, 2) int32.
        position: () int32; each position has its own noise.
        size: Numbers for each row.

    Returns:
        (R, size) float32. A row depends on its own seed, ``position`` and ``size`` only.
    """

    if has_gpu():  # a loop over rows would leave it idle
        return _gumbel_of(_hashed_uniform(seeds, position, size))

    def row(seed: tf.Tensor) -> tf.Tensor:
        smallest = np.finfo(np.float32).tiny
        return _gumbel_of(tf.random.stateless_uniform([size], seed, minval=smallest))

    # One call for each row, logarithms too: in one call for all rows the numbers would depend on
    # the number of rows, and the last bit of a logarithm on its place in the tensor.
    return tf.map_fn(row, seeds + tf.stack([0, position]), fn_output_signature=tf.float32)


def _gumbel_of(uniform: tf.Tensor) -> tf.Tensor:
    return -tf.math.log(-tf.math.log(uniform))


def _hashed_uniform(seeds: tf.Tensor, position: tf.Tensor, size: tf.Tensor | int) -> tf.Tensor:
    """Return numbers in (0, 1) for all rows at once: SplitMix64 (Steele et al. 2014), 24 bits each.

    Args:
        seeds: (R, 2) int32.
        position: () int32.
        size: Numbers for each row.

    Returns:
        (R, size) float32.
    """
    step = tf.constant(0x9E3779B97F4A7C15, tf.uint64)
    rows = _mix(tf.bitcast(seeds, tf.uint64)) + tf.cast(position, tf.uint64) * step  # (R,)
    ids = tf.cast(tf.range(1, size + 1), tf.uint64) * step  # (size,)
    bits = tf.bitwise.right_shift(_mix(_mix(rows)[:, None] + ids), tf.constant(40, tf.uint64))
    return (tf.cast(bits, tf.float32) + 0.5) * 2.0**-24


def _mix(z: tf.Tensor) -> tf.Tensor:
    """Return SplitMix64's output function of uint64 numbers."""

    def folded(z: tf.Tensor, shift: int) -> tf.Tensor:
        return tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(shift, tf.uint64)))

    z = folded(z, 30) * tf.constant(0xBF58476D1CE4E5B9, tf.uint64)
    z = folded(z, 27) * tf.constant(0x94D049BB133111EB, tf.uint64)
    return folded(z, 31)


def sample_seeds(seeds: tf.Tensor, samples: int) -> tf.Tensor:
    """Return (B * N, 2) seeds, one for each sample, from (B, 2); the first is the sentence's."""
    steps = tf.stack([tf.range(samples), tf.zeros([samples], tf.int32)], axis=1)  # (N, 2)
    return tf.reshape(seeds[:, None, :] + steps, [-1, 2])  # (B * N, 2)


def sort_samples(samples: Hypotheses) -> Hypotheses:
    """Sort the samples of each sentence: finished ones first, then by score."""
    by_score = tf.argsort(samples.scores, direction="DESCENDING", stable=True)
    ended = tf.cast(tf.gather(samples.finished, by_score, batch_dims=1), tf.int32)
    first = tf.argsort(ended, direction="DESCENDING", stable=True)
    order = tf.gather(by_score, first, batch_dims=1)  # (B, N)
    return Hypotheses(*(tf.gather(values, order, batch_dims=1) for values in samples))
