"""Averaged weights at the end of a run: the mean of the last checkpoints, and the EMA."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_transformer.compat.keras import ema_variables
from keras_transformer.config import TrainConfig
from keras_transformer.training.dev_set import evaluate_on_chief
from keras_transformer.training.parts import TrainingParts
from keras_transformer.training.scores import format_scores


def untried_averages(records: list[dict[str, Any]], config: TrainConfig, step: int) -> list[str]:
    """Return the averages that have no score yet at the last step.

    Args:
        records: The records of metrics.jsonl.
        config: ``ema_decay`` is used.
        step: The last step of the run.

    Returns:
        Those of "averaged" and "ema_decay", the fields that mark their records.
    """
    kinds = ["averaged", *["ema_decay"] * (config.ema_decay > 0)]
    tried = [record for record in records if record["step"] == step]
    return [kind for kind in kinds if not any(kind in record for record in tried)]


def try_averages(parts: TrainingParts) -> None:
    """Score the averages that have no score yet; keep one if it is the best (section 6.1).

    Afterwards, the model holds the weights of an average.
    """
    untried = untried_averages(parts.run_log.records(), parts.config, parts.state.step)
    # Read the EMA before the weights change.
    ema = _ema_weights(parts.model) if "ema_decay" in untried else []
    if "averaged" in untried:
        count = len(parts.checkpoints.averaged_steps())
        title = f"average of the last {count} checkpoints"
        _score_average(parts, "average", title, parts.checkpoints.average(), {"averaged": count})
    if "ema_decay" in untried:
        _score_average(parts, "ema", "EMA", ema, {"ema_decay": parts.config.ema_decay})


def _ema_weights(model: keras.Model) -> list[np.ndarray]:
    """Return the weights of the EMA; moving statistics are averages already."""
    averages = iter(ema_variables(model.optimizer))
    return [
        (next(averages) if weight.trainable else weight.value).numpy() for weight in model.weights
    ]


def _score_average(
    parts: TrainingParts,
    kind: str,
    title: str,
    weights: list[np.ndarray],
    record: dict[str, Any],
) -> None:
    step = parts.state.step
    parts.model.set_weights(weights)
    scores, translations, _ = evaluate_on_chief(
        parts.dev_set, parts.distribution, parts.state, parts.state.seconds
    )
    best = parts.best.offer(parts.model, scores, translations)
    parts.run_log.record({"step": step, **record, **scores})
    parts.reporter.average(kind, step, scores)
    parts.run_log.line(f"{title}: {format_scores(scores)}{' (best)' if best else '; not the best'}")
