"""The best weights of a run: which they are, and where they lie."""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer.config import TrainConfig
from keras_transformer.run import Run
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.dev_set import Scores, selection_score


class BestWeights:
    """Keeps the best weights so far.

    Args:
        run: Where they are kept.
        config: By what they are judged, and how many are kept.
        checkpoints: Know the best score and its step, so that a run which goes on does too.
        writes: Whether to write them; every worker knows the best, the chief alone writes.
    """

    def __init__(
        self, run: Run, config: TrainConfig, checkpoints: Checkpoints, writes: bool
    ) -> None:
        self._run = run
        self._config = config
        self._checkpoints = checkpoints
        self._writes = writes

    @property
    def score(self) -> float:
        """The best so far; minus infinity before the first."""
        return float(self._checkpoints.best_score.numpy())

    @property
    def step(self) -> int:
        """The step of the checkpoint that was the best when it was judged."""
        return int(self._checkpoints.best_step.numpy())

    def offer(
        self,
        model: keras.Model,
        scores: Scores,
        translations: list[str],
        step: int | None = None,
    ) -> bool:
        """Keep the weights of ``model`` if none before were as good.

        Args:
            model: With the weights that were judged.
            scores: What was found.
            translations: Of the dev set, with these weights.
            step: Of the checkpoint; None for an average, which patience does not count.

        Returns:
            Whether they are the best.
        """
        score = selection_score(scores, self._config.best_by)
        if score <= self.score:
            return False
        if self._writes:
            self._run.save_best(model)
            if translations:
                self._run.write_dev_translations(translations)
        self._checkpoints.best_score.assign(score)
        if step is not None:
            self._checkpoints.best_step.assign(step)
        return True

    def offer_record(self, record: dict[str, Any]) -> None:
        """Take note of an average that was judged, and perhaps kept, in an earlier part."""
        if selection_score(record, self._config.best_by) > self.score:
            self._checkpoints.best_score.assign(selection_score(record, self._config.best_by))

    def keep_if_among(self, model: keras.Model, records: list[dict[str, Any]], step: int) -> None:
        """Keep the weights of a checkpoint if it is one of the ``keep_best`` so far."""
        if self._writes and step in self._steps(records):
            self._run.save_checkpoint_weights(model, step)

    def forget_others(self, records: list[dict[str, Any]]) -> None:
        """Delete the weights of checkpoints that are none of the best any more."""
        if self._writes:
            self._run.delete_checkpoint_weights_except(self._steps(records))

    def _steps(self, records: list[dict[str, Any]]) -> set[int]:
        """The best checkpoints, where several are kept."""
        if self._config.keep_best == 1:
            return set()
        judged = [record for record in records if is_checkpoint(record)]
        ranked = sorted(judged, key=lambda record: -selection_score(record, self._config.best_by))
        return {record["step"] for record in ranked[: self._config.keep_best]}

    def is_long_ago(self, step: int) -> bool:
        """Whether ``patience`` checkpoints have brought nothing better."""
        waited = step - self.step
        patience = self._config.patience * self._config.checkpoint_every
        return 0 < patience <= waited


def is_checkpoint(record: dict[str, Any]) -> bool:
    """Whether a record of metrics.jsonl is about a checkpoint, not about an average."""
    return not ("averaged" in record or "ema_decay" in record)
