"""Adam for gradients that the training step has already summed over all replicas."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.compat.keras import ReducedGradients, adam_moments
from keras_transformer.config import Config
from keras_transformer.training.schedule import NoamSchedule


@keras.saving.register_keras_serializable("keras_transformer")
class ReducedAdam(ReducedGradients, keras.optimizers.Adam):
    """Adam (section 5.3) with one fused TensorFlow operation per variable."""

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: Any) -> None:
        """Update a variable and its moments on the device that holds them.

        Args:
            gradient: Same shape as the variable.
            variable: The TensorFlow variable to update.
            learning_rate: Float scalar.
        """
        first, second = adam_moments(self, variable)
        step = tf.cast(self.iterations.value, tf.float32) + 1.0
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=first.handle,
            v=second.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )


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
