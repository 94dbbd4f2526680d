"""Dynamic loss scale of training in float16.

Micikevicius et al. (2018), "Mixed Precision Training".

Gradients of activations below 6e-8 are zero in float16, and those above 65,504 infinite. So the
loss is multiplied by a scale before the backward pass, and the float32 gradients of the weights are
divided by it. After an overflow the update is skipped and the scale halved; after many steps
without one it is doubled.

Why not `keras.optimizers.LossScaleOptimizer`: under a distribution strategy it fails, and it would
look at the gradients of one device. Here the gradients are summed over micro-batches and replicas
first, and the one check is the same on all of them.
"""

from __future__ import annotations

import tensorflow as tf

INITIAL_SCALE = 2.0**15
MAX_SCALE = 2.0**24
GROWTH_INTERVAL = 2_000
"""Steps without an overflow before the scale is doubled."""


class LossScale:
    """The scale and its state, which a checkpoint stores. All values are powers of two.

    Create it in the scope of the distribution strategy. Every replica has a copy, and all replicas
    make the same updates.
    """

    def __init__(self) -> None:
        def variable(value: float, dtype: tf.DType) -> tf.Variable:
            return tf.Variable(
                value,
                dtype=dtype,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

        self.scale = variable(INITIAL_SCALE, tf.float32)
        self.good_steps = variable(0, tf.int64)
        """Steps since the last overflow or doubling."""
        self.skipped = variable(0, tf.int64)
        """Skipped updates since the beginning of the run."""

    @property
    def variables(self) -> list[tf.Variable]:
        """The state, for checkpoints."""
        return [self.scale, self.good_steps, self.skipped]

    def update(self, finite: tf.Tensor) -> tf.Tensor:
        """Count a step and change the scale, in replica context.

        Args:
            finite: () bool, whether all gradients are finite, the same on all replicas.

        Returns:
            () bool: whether the step is skipped and training goes on. If the gradients are not
            finite at scale 1, a lower scale would not help.
        """
        scale, good, skipped = (tf.convert_to_tensor(one) for one in self.variables)
        grown = good + 1 >= GROWTH_INTERVAL
        larger = tf.where(grown, tf.minimum(scale * 2.0, MAX_SCALE), scale)
        zero = tf.zeros_like(good)
        _assign(self.scale, tf.where(finite, larger, tf.maximum(scale * 0.5, 1.0)))
        _assign(self.good_steps, tf.where(finite & ~grown, good + 1, zero))
        _assign(self.skipped, skipped + tf.cast(~finite, tf.int64))
        return ~finite & (scale > 1.0)


def _assign(variable: tf.Variable, value: tf.Tensor) -> None:
    """Assign to the local copy of a replica, since all replicas assign the same value."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
