"""Record of a search, made by a step function around the model's.

The search is unchanged: it only sees a step function. It runs eagerly.

Shapes: R rows, W hypotheses of the sentence, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from keras_transformer.inference.search.step_function import State, Steps


@dataclass
class SearchRecord:
    """The steps of a search for one sentence."""

    tokens: list[np.ndarray] = field(default_factory=list)
    """For each step (W,) int64: the last token of each live hypothesis."""
    log_probabilities: list[np.ndarray] = field(default_factory=list)
    """For each step (W, V) float32: log-probability of each token after each live hypothesis."""
    parents: list[np.ndarray] = field(default_factory=list)
    """For each step (W,) int64: the hypothesis that each survivor continues."""

    def paths(self) -> list[list[tuple[int, ...]]]:
        """Return the tokens of each live hypothesis before each step, START first."""
        levels: list[list[tuple[int, ...]]] = [[(int(token),) for token in self.tokens[0]]]
        for tokens, parents in zip(self.tokens[1:], self.parents, strict=False):
            before = levels[-1]
            pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
            levels.append([(*before[parent], token) for parent, token in pairs])
        return levels


class RecordingSteps:
    """Step function that records the steps of one sentence; see `Steps`.

    Args:
        steps: The step function of a model.
        record: Gets the steps.
    """

    def __init__(self, steps: Steps, record: SearchRecord) -> None:
        self._steps = steps
        self._record = record

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        logits, state = self._steps(tokens, position, state)
        if len(self._record.parents) < len(self._record.tokens):  # greedy search never reorders
            self._record.parents.append(np.arange(len(tokens)))
        self._record.tokens.append(tokens.numpy())
        self._record.log_probabilities.append(tf.nn.log_softmax(logits).numpy())
        return logits, state

    def reorder(self, state: State, parents: tf.Tensor) -> State:
        self._record.parents.append(parents[0].numpy())
        return self._steps.reorder(state, parents)

    def select_and_reserve(self, state: State, sentences: tf.Tensor, more: int) -> State:
        return self._steps.select_and_reserve(state, sentences, more)
