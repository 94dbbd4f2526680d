"""Reporting in addition to the run log: step metrics, TensorBoard, curves."""

from __future__ import annotations

from keras_transformer.run import Run
from keras_transformer.training.dev_set import DevSet
from keras_transformer.training.reporting import curves, tensorboard
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.reporting.tensorboard import TensorBoardWriter
from keras_transformer.training.scores import Scores


class Reporter:
    """Step metrics, TensorBoard events and curves of a run.

    Args:
        run: The run folder.
        run_log: Its records.
        dev_set: The dev set, for example translations and attention.
        writes: Whether to write files; among several workers only the chief does.
    """

    def __init__(self, run: Run, run_log: RunLog, dev_set: DevSet, writes: bool) -> None:
        self._run = run
        self._run_log = run_log
        self._dev_set = dev_set
        self._writes = writes
        self._tensorboard = (
            TensorBoardWriter(run.path, run_log.line)
            if writes and run.config.train.tensorboard
            else None
        )

    def truncate(self, step: int) -> None:
        """Remove the TensorBoard events of steps after ``step``, which will be repeated."""
        if self._writes:
            tensorboard.truncate(self._run.path, step)

    def steps(self, step: int, metrics: dict[str, float]) -> None:
        """Report the metrics of the ``log_every`` steps up to ``step``."""
        self._run_log.record_steps({"step": step, **metrics})
        if self._tensorboard:
            self._tensorboard.train(step, metrics)

    def checkpoint(self, step: int, scores: Scores, translations: list[str]) -> None:
        """Report a checkpoint's scores and translations from `DevSet.evaluate`."""
        if self._tensorboard:
            examples = self._dev_set.examples(translations, tensorboard.EXAMPLES)
            attention = self._dev_set.attention(tensorboard.ATTENTION_IMAGES)
            self._tensorboard.dev(step, scores, examples, attention)

    def average(self, kind: str, step: int, scores: Scores) -> None:
        """Report the scores of averaged weights.

        Args:
            kind: "average" or "ema".
            step: The last step.
            scores: Their scores on the dev set.
        """
        if self._tensorboard:
            self._tensorboard.average(kind, step, scores)

    def draw_curves(self, only_if_missing: bool = False) -> None:
        """Draw the curves of the run.

        Args:
            only_if_missing: Keep an existing picture.
        """
        if self._writes and not (only_if_missing and (self._run.path / curves.FILE).exists()):
            curves.write(
                self._run.path,
                self._run_log.records(),
                self._run_log.steps(),
                self._run.config.train.best_by,
                self._run_log.line,
            )

    def close(self) -> None:
        """Close the event files and draw the curves."""
        if self._tensorboard:
            self._tensorboard.close()
        self.draw_curves()
