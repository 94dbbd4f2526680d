"""Selection of the best weights of a run."""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer.config import TrainConfig
from keras_transformer.run import Run
from keras_transformer.training.scores import (
    Scores,
    SelectionScore,
    is_checkpoint,
    selection_score,
)
from keras_transformer.training.state import TrainingState


class BestWeights:
    """The weights with the best score so far.

    Args:
        run: The run folder, which stores them.
        config: ``best_by``, ``keep_best``, ``patience`` and ``checkpoint_every`` are used.
        state: Holds the best score and its step.
        writes: Whether to store weights. Every worker keeps the best score; only the chief
            writes.
    """

    def __init__(self, run: Run, config: TrainConfig, state: TrainingState, writes: bool) -> None:
        self._run = run
        self._config = config
        self._state = state
        self._writes = writes

    def offer(
        self,
        model: keras.Model,
        scores: Scores,
        translations: list[str],
        step: int | None = None,
    ) -> bool:
        """Keep the weights of ``model`` if their score is the best so far.

        Args:
            model: The model with the weights that were scored.
            scores: Their scores on the dev set.
            translations: Their translations of the dev set.
            step: Step of the checkpoint; None for an average, which does not reset patience.

        Returns:
            Whether they are the best.
        """
        if not self._is_best(scores):
            return False
        if self._writes:
            self._run.save_best(model)
            if translations:
                self._run.write_dev_translations(translations)
        self._set_best(scores, step)
        return True

    def restore(self, records: list[dict[str, Any]]) -> None:
        """Restore the best score from the records of metrics.jsonl.

        A checkpoint holds only ``best_score`` and ``best_step``, and those from before the
        averages.

        Args:
            records: The records up to the restored step, oldest first.
        """
        for record in records:
            if self._is_best(record):
                self._set_best(record, record["step"] if is_checkpoint(record) else None)

    def _is_best(self, scores: dict[str, Any]) -> bool:
        best = SelectionScore(self._state.best_score, -self._state.best_loss)
        return selection_score(scores, self._config.best_by) > best

    def _set_best(self, scores: dict[str, Any], step: int | None) -> None:
        score = selection_score(scores, self._config.best_by)
        self._state.best_score, self._state.best_loss = score.metric, -score.negative_loss
        if step is not None:
            self._state.best_step = step

    def keep_if_ranked(self, model: keras.Model, records: list[dict[str, Any]], step: int) -> None:
        """Store the weights of a checkpoint in ``best/`` if it is among the ``keep_best``.

        Args:
            model: The model with the weights of the checkpoint.
            records: All records of metrics.jsonl, including the checkpoint's.
            step: Step of the checkpoint.
        """
        if self._writes and step in self._ranked_steps(records):
            self._run.save_checkpoint_weights(model, step)

    def remove_unranked(self, records: list[dict[str, Any]]) -> None:
        """Delete the weights in ``best/`` that are no longer among the ``keep_best``."""
        if self._writes:
            self._run.delete_checkpoint_weights_except(self._ranked_steps(records))

    def _ranked_steps(self, records: list[dict[str, Any]]) -> set[int]:
        """Return the steps of the ``keep_best`` best checkpoints; empty if only one is kept."""
        if self._config.keep_best == 1:
            return set()
        checkpoints = [record for record in records if is_checkpoint(record)]
        # Of equal ones the first, as in `offer`: sorting is stable, in reverse too.
        ranked = sorted(
            checkpoints,
            key=lambda record: selection_score(record, self._config.best_by),
            reverse=True,
        )
        return {record["step"] for record in ranked[: self._config.keep_best]}

    def patience_exhausted(self, step: int) -> bool:
        """Return whether none of the last ``patience`` checkpoints up to ``step`` was the best."""
        waited = step - self._state.best_step
        patience = self._config.patience * self._config.checkpoint_every
        return 0 < patience <= waited
