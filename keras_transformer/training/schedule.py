"""Learning rate schedule of the paper (section 5.3)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), equation 3.

    Without warm-up the peak rate, that of step ``warmup_steps``, lasts from step 1 to there; the
    decay after it is the same.

    Keras counts updates from 0, the paper from 1: the first update uses step 1, so that its
    rate is neither zero nor infinite.

    Args:
        d_model: D, the model's width.
        warmup_steps: Number of updates before the rate decays.
        factor: Multiplies the paper's rate.
        warmup: "linear", a rising rate in these updates, or "none", a constant one.

    Raises:
        ValueError: A width or number of updates below 1, or another warm-up.
    """

    def __init__(
        self,
        d_model: int,
        warmup_steps: int = 4000,
        factor: float = 1.0,
        warmup: str = "linear",
    ) -> None:
        super().__init__()
        if warmup not in ("linear", "none"):
            raise ValueError(f"warmup: expected linear or none, got {warmup!r}")
        for name, value in (("d_model", d_model), ("warmup_steps", warmup_steps)):
            if value < 1:
                raise ValueError(f"{name}: expected 1 or more, got {value!r}")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.factor = factor
        self.warmup = warmup

    def __call__(self, step: Any) -> tf.Tensor:
        """Return the rate of the next update.

        Args:
            step: Number of updates done, an integer scalar of any kind.

        Returns:
            () float32.
        """
        number = tf.cast(step, tf.float32) + 1.0
        rising = number if self.warmup == "linear" else float(self.warmup_steps)
        rate = tf.minimum(number**-0.5, rising * self.warmup_steps**-1.5)
        return self.factor * self.d_model**-0.5 * rate

    def get_config(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
            "warmup": self.warmup,
        }
