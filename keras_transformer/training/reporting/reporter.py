"""What shows a training beside the lines of its journal."""

from __future__ import annotations

from keras_transformer.run import Run
from keras_transformer.training.dev_set import DevSet, Scores
from keras_transformer.training.reporting import curves, tensorboard
from keras_transformer.training.reporting.run_log import RunLog


class Reporter:
    """Keeps the numbers of the steps, fills TensorBoard, draws the curves.

    Args:
        run: The run folder.
        journal: Its records.
        dev_set: Gives examples of what the network does.
        writes: Whether to do any of it; of several workers the chief alone does.
    """

    def __init__(self, run: Run, run_log: RunLog, dev_set: DevSet, writes: bool) -> None:
        self._run = run
        self._run_log = run_log
        self._dev_set = dev_set
        self._writes = writes
        self._board = (
            tensorboard.TensorBoard(run.path) if writes and run.config.train.tensorboard else None
        )

    def forget_after(self, step: int) -> None:
        """Drop what TensorBoard has of steps that are about to be taken again."""
        if self._writes:
            tensorboard.forget_after(self._run.path, step)

    def steps(self, step: int, values: dict[str, float]) -> None:
        """Take note of the numbers of the last ``log_every`` steps."""
        self._run_log.record_steps({"step": step, **values})
        if self._board:
            self._board.train(step, values)

    def checkpoint(self, step: int, scores: Scores, translations: list[str]) -> None:
        """Take note of what the weights make of the dev set, from `DevSet.evaluate`."""
        if self._board:
            examples = self._dev_set.examples(translations, tensorboard.EXAMPLES)
            self._board.dev(step, scores, examples, self._dev_set.attention(tensorboard.PICTURES))

    def average(self, kind: str, step: int, scores: Scores) -> None:
        """Take note of what averaged weights make of it.

        Args:
            kind: "average" or "ema_decay".
            step: The last one.
            scores: From `DevSet.evaluate`.
        """
        if self._board:
            self._board.average(kind, step, scores)

    def draw(self, anew: bool = True) -> None:
        """Draw the curves; with ``anew`` false only where they are not there."""
        if self._writes and (anew or not (self._run.path / curves.FILE).exists()):
            curves.write(
                self._run.path,
                self._run_log.records(),
                self._run_log.steps(),
                self._run.config.train.best_by,
                self._run_log.line,
            )

    def end(self) -> None:
        """End the event files, draw the curves."""
        if self._board:
            self._board.close()
        self.draw()
