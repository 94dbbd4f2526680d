"""Optimizers for gradients that have been added up over all replicas before they reach them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class Reduced:
    """Mixed into a Keras optimizer: gradients are taken as they are.

    Keras' own optimizers add them up over replicas themselves, after clipping: then each
    replica clips by the norm of its own share, and training depends on the number of devices.
    Here the step adds up, divides by the tokens and clips, in this order.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars

    def finalize_variable_values(self, var_list: Any) -> None:
        """Nothing: `fit` would put the moving average of the weights in their place."""

    def ema_weights(self) -> list[tf.Tensor]:
        """The exponential average of each trainable weight; none without ``use_ema``."""
        averages = self._model_variables_moving_average if self.use_ema else []  # type: ignore[attr-defined]
        return [variable.value for variable in averages]


@keras.saving.register_keras_serializable("keras_transformer")
class ReducedAdam(Reduced, keras.optimizers.Adam):
    """Adam (section 5.3); each variable is updated by one operation of TensorFlow, not by ten."""

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: Any) -> None:
        """Update a variable and its moments, on the device that holds them.

        Args:
            gradient: Of the variable's shape.
            variable: The one to update.
            learning_rate: Float scalar.
        """
        place = self._get_variable_index(variable)
        moments = self._momentums[place].value, self._velocities[place].value
        steps = tf.cast(self.iterations.value, tf.float32) + 1.0
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=moments[0].handle,
            v=moments[1].handle,
            beta1_power=self.beta_1**steps,
            beta2_power=self.beta_2**steps,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )
