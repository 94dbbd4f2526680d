"""Adam for gradients that the training step has already summed over all replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.compat.keras import ReducedGradients, adam_moments, update_ema
from keras_transformer.config import Config
from keras_transformer.training.schedule import NoamSchedule

_finite: ContextVar[tf.Tensor | None] = ContextVar("finite", default=None)


class _Rates(NamedTuple):
    """Values of one step that all variables share; () float32 each."""

    learning_rate: Any
    beta_1: Any
    beta_2: Any
    beta_1_power: Any
    beta_2_power: Any


@keras.saving.register_keras_serializable("keras_transformer")
class ReducedAdam(ReducedGradients, keras.optimizers.Adam):
    """Adam (section 5.3) with one fused TensorFlow operation per variable."""

    def rates(self, learning_rate: Any) -> _Rates:
        """Return what all variables share in a step; a skipped one leaves them as they are."""
        step = tf.cast(self.iterations.value, tf.float32) + 1.0
        rates = _Rates(
            tf.cast(learning_rate, tf.float32),
            self.beta_1,
            self.beta_2,
            self.beta_1**step,
            self.beta_2**step,
        )
        finite = _finite.get()
        if finite is None:
            return rates
        # With these values, and a gradient of 0, the operation adds exactly 0 to each variable.
        return rates._replace(
            learning_rate=tf.where(finite, rates.learning_rate, 0.0),
            beta_1=tf.where(finite, self.beta_1, 1.0),
            beta_2=tf.where(finite, self.beta_2, 1.0),
        )

    def update_step(self, gradient: tf.Tensor, variable: Any, rates: Any) -> None:
        """Update a variable and its moments on the device that holds them.

        Args:
            gradient: Same shape as the variable.
            variable: The TensorFlow variable to update.
            rates: From `rates`.
        """
        first, second = adam_moments(self, variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=first.handle,
            v=second.handle,
            beta1_power=rates.beta_1_power,
            beta2_power=rates.beta_2_power,
            lr=rates.learning_rate,
            beta1=rates.beta_1,
            beta2=rates.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )

    def apply_if(self, finite: tf.Tensor, gradients: Any, variables: Any) -> None:
        """Apply gradients if ``finite`` is true; otherwise nothing changes, not even the step.

        Args:
            finite: () bool, the same on all replicas.
            gradients: As for `apply`; all 0 where ``finite`` is false.
            variables: As for `apply`.
        """
        with _skip_unless(finite):
            self.apply(gradients, variables)
        # The local copy of each replica. `apply` has counted the step.
        tf.raw_ops.AssignSubVariableOp(
            resource=self.iterations.value.handle,
            value=tf.cast(~finite, self.iterations.dtype),
        )

    def _update_model_variables_moving_average(self, trainable_variables: Any) -> None:
        if _finite.get() is None:
            super()._update_model_variables_moving_average(trainable_variables)
        else:
            update_ema(self, trainable_variables, _finite.get())


@contextlib.contextmanager
def _skip_unless(finite: tf.Tensor) -> Iterator[None]:
    token = _finite.set(finite)
    try:
        yield
    finally:
        _finite.reset(token)


def build_optimizer(config: Config) -> ReducedAdam:
    """Build the optimizer of a configuration, with its learning rate schedule and EMA.

    Args:
        config: ``train.adam_*``, ``train.warmup``, ``train.warmup_steps``,
            ``train.learning_rate_factor`` and ``train.ema_decay`` are used, and
            ``model.d_model`` for the schedule.
    """
    train = config.train
    return ReducedAdam(
        NoamSchedule(
            config.model.d_model, train.warmup_steps, train.learning_rate_factor, train.warmup
        ),
        train.adam_beta_1,
        train.adam_beta_2,
        train.adam_epsilon,
        use_ema=train.ema_decay > 0,
        ema_momentum=train.ema_decay,
    )
