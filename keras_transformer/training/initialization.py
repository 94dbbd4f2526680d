"""Initial weights of fine-tuning."""

from __future__ import annotations

from keras_transformer.training.parts import TrainingParts
from keras_transformer.training.scores import Scores, format_scores


def load_initial_weights(parts: TrainingParts) -> None:
    """Load the initial weights of a run that starts from another one, and log their dev loss.

    The run folder has a copy of them, so that the other run may change. Every worker calls this
    before the first step.

    Raises:
        RunError: The weights are missing or damaged.
    """
    run, origin = parts.run, parts.run.origin()
    if not origin:
        return
    with parts.distribution.strategy.scope():
        run.load_weights(parts.model, run.initial_weights)
    scores: Scores = parts.dev_set.loss() if parts.distribution.chief else {}
    parts.distribution.wait()
    parts.run_log.line(f"initial weights: those of {origin}, {format_scores(scores)}")
