"""Dropout that spends little on random numbers (section 5.4)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras
import tensorflow as tf

_LEVELS = 1 << 8  # values of the 8 random bits that decide over one element
_dropout_seed: ContextVar[tf.Tensor | None] = ContextVar("noise", default=None)


@contextlib.contextmanager
def dropout_seed(seed: tf.Tensor) -> Iterator[None]:
    """Let ``seed`` decide what every `Dropout` called inside drops.

    The same seed drops the same elements, as often as it is asked: a computation can be
    repeated, by a run that goes on after a stop or by a backward pass that keeps no
    activations. Different layers still drop different elements.

    Args:
        seed: (2,) int32.
    """
    token = _dropout_seed.set(seed)
    try:
        yield
    finally:
        _dropout_seed.reset(token)


def current_dropout_seed() -> tf.Tensor | None:
    """The seed of the innermost `dropout_seed`, or None outside of any."""
    return _dropout_seed.get()


@keras.saving.register_keras_serializable("keras_transformer")
class Dropout(keras.layers.Layer):
    """Sets a share of its input to zero in training and scales up the rest.

    Keras' layer draws a random float for each element, which takes as long on a CPU as the
    rest of a small layer. Here one random word decides over four elements. 8 bits know
    shares of n/256 only: each call draws one of the two next to ``rate``, so that any element
    is dropped with just this probability.

    Each call draws anew; inside of `dropout_seed`, its seed decides.

    Args:
        rate: Share to drop, 0 <= rate < 1.
        seed: Seed of the random numbers; None takes one from Keras' global seed.

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
        """Drop in training, return ``x`` as it is otherwise; any shape."""
        if not training or not self.rate:
            return x
        return x * self._factors(tf.shape(x), self.draw(), x.dtype)

    def in_blocks(self) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
        """One call's dropout for what is computed block by block, and perhaps again.

        Returns:
            A function from a block's shape and its number, () int32, to what the block is
            multiplied with, float32; the same whenever it is asked for.
        """
        seed = self.draw()

        def factors(shape: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
            own = tf.random.fold_in(seed, number)
            return self._factors(shape, own, tf.float32)

        return factors

    def _factors(self, shape: tf.Tensor, seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Zeros for what is dropped, for the rest what makes up for it."""
        size = tf.reduce_prod(shape)
        # The word that is left over in the end decides over the share.
        count = (size + 3) // 4 + 1
        words = tf.random.stateless_uniform([count], seed, None, None, tf.int32)
        share = tf.cast(words[-1], tf.float32) * 2.0**-32 + 0.5  # in [0, 1)
        dropped = tf.minimum(tf.floor(self.rate * _LEVELS + share), _LEVELS - 1)
        bits = tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:size]
        kept = tf.reshape(bits >= tf.cast(dropped, tf.uint8), shape)
        return tf.cast(kept, dtype) * (1.0 / (1.0 - self.rate))

    def draw(self) -> tf.Tensor:
        """The seed of one call, (2,) int32: drawn anew, or what `dropout_seed` decides."""
        seed = _dropout_seed.get()
        if seed is None:
            return tf.cast(tf.convert_to_tensor(self.seed_generator.next()), tf.int32)
        # The generator's state, which then never changes, tells one layer from another.
        return seed + tf.cast(tf.convert_to_tensor(self.seed_generator.state), tf.int32)

    def compute_output_shape(self, shape: Any) -> Any:
        """The input's shape."""
        return shape

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"rate": self.rate, "seed": self.seed}
