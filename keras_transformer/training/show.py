"""What shows a training beside the lines of its journal."""

from __future__ import annotations

from keras_transformer.run import Run
from keras_transformer.training import board, curves
from keras_transformer.training.dev_set import DevSet, Scores
from keras_transformer.training.journal import Journal


class Show:
    """Keeps the numbers of the steps, fills TensorBoard, draws the curves.

    Args:
        run: The run folder.
        journal: Its records.
        dev_set: Gives examples of what the network does.
        writes: Whether to do any of it; of several workers the chief alone does.
    """

    def __init__(self, run: Run, journal: Journal, dev_set: DevSet, writes: bool) -> None:
        self._run = run
        self._journal = journal
        self._dev_set = dev_set
        self._writes = writes
        self._board = board.Board(run.path) if writes and run.config.train.tensorboard else None

    def forget_after(self, step: int) -> None:
        """Drop what TensorBoard has of steps that are about to be taken again."""
        if self._writes:
            board.forget_after(self._run.path, step)

    def steps(self, step: int, values: dict[str, float]) -> None:
        """Take note of the numbers of the last ``log_every`` steps."""
        self._journal.record_steps({"step": step, **values})
        if self._board:
            self._board.train(step, values)

    def checkpoint(self, step: int, scores: Scores, translations: list[str]) -> None:
        """Take note of what the weights make of the dev set, from `DevSet.evaluate`."""
        if self._board:
            examples = self._dev_set.examples(translations, board.EXAMPLES)
            self._board.dev(step, scores, examples, self._dev_set.attention(board.PICTURES))

    def average(self, kind: str, step: int, scores: Scores) -> None:
        """Take note of what averaged weights make of it.

        Args:
            kind: "average" or "moving_average".
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
                self._journal.records(),
                self._journal.steps(),
                self._run.config.train.best_by,
                self._journal.line,
            )

    def end(self) -> None:
        """End the event files, draw the curves."""
        if self._board:
            self._board.close()
        self.draw()
