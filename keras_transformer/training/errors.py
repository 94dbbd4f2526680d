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
        NotFiniteError: The value is not finite; checkpoints are from before it.
    """
    if not math.isfinite(value):
        raise NotFiniteError(
            step,
            f"{name} is {value} at step {step}{where}",
        )


def way_out(checkpoint: int) -> str:
    """Return a sentence on how to go on after a loss that is not finite.

    Args:
        checkpoint: Step of the last checkpoint, which is from before that loss; 0: there is none.
    """
    options = "a lower train.learning_rate_factor, a longer train.warmup_steps or train.clip_norm"
    if checkpoint:
        return (
            f"The checkpoint of step {checkpoint} is still good: continue from it with --resume "
            f"--accept_changes and {options}"
        )
    return f"There is no checkpoint yet: start again in another run folder with {options}"
