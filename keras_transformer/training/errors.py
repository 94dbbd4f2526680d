"""Errors of a training run, and the check for a loss that is not finite."""

from __future__ import annotations

import math

from keras_transformer.errors import UserError


class TrainingError(UserError):
    """A failure after which training cannot continue."""


class NotFiniteError(TrainingError):
    """A loss or gradient norm that is NaN or infinite.

    Args:
        step: The step that produced it.
        message: For the user.
    """

    def __init__(self, step: int, message: str) -> None:
        super().__init__(message)
        self.step = step


def check_finite(value: float, step: int, where: str = "", name: str = "the loss") -> None:
    """Refuse to continue with a loss that is not finite.

    Args:
        value: The loss, or another quantity described by ``name``.
        step: The step after which it was measured.
        where: Appended to the step in the message, such as ", batch 3".
        name: The quantity, for the message.

    Raises:
        NotFiniteError: The value is not finite; the last checkpoint is from before it.
    """
    if not math.isfinite(value):
        raise NotFiniteError(
            step,
            f"{name} is {value} at step {step}{where}; the last checkpoint is still good. "
            "A lower train.learning_rate_factor, a longer train.warmup_steps or "
            "train.clip_norm may help",
        )
