"""Errors of a training run, and the check for a loss that is not finite."""

from __future__ import annotations

import math

from keras_transformer.errors import UserError


class TrainingError(UserError):
    """Training cannot continue."""


class NotFiniteError(TrainingError):
    """A loss or gradient norm is NaN or infinite.

    Args:
        step: The step that produced it.
        message: For the user.
    """

    def __init__(self, step: int, message: str) -> None:
        super().__init__(message)
        self.step = step


def check_finite(value: float, step: int, where: str = "", name: str = "the loss") -> None:
    """Stop a run whose loss is not finite.

    Args:
        value: The loss on the training or dev set, or the quantity that ``name`` describes.
        step: The step after which it was measured.
        where: Added to the step in the message, such as the number of the batch.
        name: The quantity, for the message.

    Raises:
        NotFiniteError: With step and place; the last checkpoint is from before it.
    """
    if not math.isfinite(value):
        raise NotFiniteError(
            step,
            f"{name} is {value} at step {step}{where}; the last checkpoint is still good. "
            "A lower train.learning_rate_factor, a longer train.warmup_steps or "
            "train.clip_norm may help",
        )
