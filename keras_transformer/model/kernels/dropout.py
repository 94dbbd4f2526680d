"""Dropout from 8 random bits for each element (section 5.4).

Why not Keras' layer: it draws a random float for each element, which takes 13 ms for (64, 64, 512)
instead of 5. And it cannot repeat a call from a seed, which resuming a run, gradient checkpointing
and blockwise attention need.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras
import tensorflow as tf

_LEVELS = 1 << 8  # values of 8 random bits
_dropout_seed: ContextVar[tf.Tensor | None] = ContextVar("dropout_seed", default=None)


@contextlib.contextmanager
def dropout_seed(seed: tf.Tensor) -> Iterator[None]:
    """Use ``seed`` for every `Dropout` that is called in the block.

    The same seed drops the same elements each time, but different ones in different layers. So a
    resumed run can repeat a step, and a backward pass its forward pass.

    Args:
        seed: (2,) int32.
    """
    token = _dropout_seed.set(seed)
    try:
        yield
    finally:
        _dropout_seed.reset(token)


def current_dropout_seed() -> tf.Tensor | None:
    """Return the seed of the innermost `dropout_seed`, or None outside of it."""
    return _dropout_seed.get()


@keras.saving.register_keras_serializable("keras_transformer")
class Dropout(keras.layers.Layer):
    """Inverted dropout, with a new seed for each call or the seed of `dropout_seed`.

    One random word gives four elements 8 bits each. 8 bits allow only rates of n / 256: each call
    rounds ``rate`` up or down at random, so that every element is dropped with exactly the
    probability ``rate``.

    Args:
        rate: Dropout rate, 0 <= rate < 1.
        seed: Seed of the random numbers; None takes one from Keras' global seed.
        kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        ValueError: A rate outside of [0, 1).
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"rate: expected 0 <= rate < 1, got {rate!r}")
        self.rate = rate
        self.seed = seed
        if rate:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Drop elements in training; return ``x`` unchanged otherwise.

        Args:
            x: Any shape.
            training: Whether to drop.

        Returns:
            The shape of ``x``.
        """
        if not training or not self.rate:
            return x
        return x * self._factors(tf.shape(x), self.draw(), x.dtype)

    def blockwise(self) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
        """Draw the dropout of a tensor that is computed block by block, and more than once.

        Returns:
            A function from a block's shape and its number, () int32, to the inverted-dropout
            mask of the block, float32. Equal numbers give equal masks.
        """
        seed = self.draw()

        def factors(shape: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
            return self._factors(shape, tf.random.fold_in(seed, number), tf.float32)

        return factors

    def draw(self) -> tf.Tensor:
        """Return the seed of one call, (2,) int32: a new one, or that of `dropout_seed`."""
        seed = _dropout_seed.get()
        if seed is None:
            return tf.cast(tf.convert_to_tensor(self.seed_generator.next()), tf.int32)
        # The state of the generator, which is not advanced here, differs between layers.
        return seed + tf.cast(tf.convert_to_tensor(self.seed_generator.state), tf.int32)

    def _factors(self, shape: tf.Tensor, seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Return the inverted-dropout mask: 0 for dropped elements, 1 / (1 - rate) for others."""
        # TensorFlow computes with int32 on the host. A product of scalars stays there; a reduction
        # or a slice of the words would make a GPU wait for a copy.
        size = math.prod(tf.unstack(shape))
        # The last word belongs to no element: it rounds the rate up or down.
        count = (size + 3) // 4 + 1
        words = tf.random.stateless_uniform([count], seed, None, None, tf.int32)
        last = tf.gather(words, count - 1)
        uniform = tf.cast(last, tf.float32) * 2.0**-32 + 0.5  # in [0, 1)
        dropped = tf.minimum(tf.floor(self.rate * _LEVELS + uniform), _LEVELS - 1)
        bits = tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:size]
        kept = tf.reshape(bits >= tf.cast(dropped, tf.uint8), shape)
        return tf.cast(kept, dtype) * (1.0 / (1.0 - self.rate))

    def compute_output_shape(self, shape: Any) -> Any:
        return shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"rate": self.rate, "seed": self.seed}
