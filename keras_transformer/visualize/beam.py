"""Hypothesis tree of a beam search.

Shapes: W beam width, S source length, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.data.tokenizer import SentencePiece
from keras_transformer.inference.search.generate import generate
from keras_transformer.inference.search.hypotheses import INVALID_BELOW
from keras_transformer.inference.search.step_function import as_steps
from keras_transformer.inference.translator import Translator
from keras_transformer.special_tokens import END, START
from keras_transformer.visualize.beam_drawing import draw
from keras_transformer.visualize.search_record import RecordingSteps, SearchRecord
from keras_transformer.visualize.sentence import encode_source
from keras_transformer.visualize.tokens import Token, read_tokens

Path = tuple[int, ...]


@dataclass
class Node:
    """A hypothesis that the search kept alive or finished, as the tree's node of its last token."""

    token: Token
    probability: float
    """Of the token, after its parent's."""
    log_probability: float
    """Of all tokens so far."""
    finished: bool = False
    score: float | None = None
    """Of a finished hypothesis: log-probability over length penalty."""
    best: bool = False
    """Whether it is on the path of the best hypothesis."""
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class BeamTree:
    """The hypotheses of a beam search as a tree, the start token at its root."""

    root: Node
    tokens: tuple[int, ...]
    """The best hypothesis: its tokens, END last unless the limit came before."""
    beam: int
    alpha: float

    @property
    def caption(self) -> str:
        """What the drawing shows, in a sentence or two."""
        return (
            f"Beam search with {self.beam} live hypotheses, length penalty α = {self.alpha:g}. "
            "Each node is a token that stayed among them, with its probability after the tokens "
            "to its left. Branches without [end] were dropped, or the search stopped before they "
            "ended. [end] shows the score: log-probability over length penalty."
        )

    def svg(self) -> str:
        """Return the drawing as the text of an SVG file."""
        return draw(self.root)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'


def beam_tree(
    translator: Translator, sentence: str, search: SearchConfig | None = None
) -> BeamTree:
    """Search the translation of a sentence and return the hypotheses on the way.

    Args:
        translator: The trained model.
        sentence: The source.
        search: The search; None: that of the translator. Sampling is replaced by beam search.

    Raises:
        TranslationError: The sentence is blank or too long.
    """
    source = [*encode_source(translator, sentence), END]
    return search_tree(translator, source, search or translator.search)


def search_tree(translator: Translator, source: Sequence[int], search: SearchConfig) -> BeamTree:
    """Search the translation of source ids, the end token included; see `beam_tree`."""
    beam = search.beam
    # All finished hypotheses of the last moment are returned, but the search stops as before.
    wide = dataclasses.replace(
        search, sample=False, temperature=1.0, top_k=0, top_p=1.0, n_best=beam
    )
    record = SearchRecord()

    def recorded_start(ids: tf.Tensor, width: int) -> tuple[RecordingSteps, Any]:
        step, state = translator.start(ids, width)
        return RecordingSteps(as_steps(step, width), record), state

    required = tf.constant(min(search.n_best, beam))
    found = generate(recorded_start, tf.constant([list(source)]), wide, required=required)
    tree = _Tree(record, translator.tokenizer.target)
    hypotheses = []
    for ids, length, score, finished in zip(
        *(values[0].numpy() for values in (found.tokens, found.lengths, found.scores)),
        found.finished[0].numpy(),
        strict=True,
    ):
        if length:
            hypotheses.append(tuple(ids[:length].tolist()))
            tree.add_hypothesis((START, *hypotheses[-1]), float(score), bool(finished))
    best = hypotheses[0] if hypotheses else ()
    tree.mark((START, *best))
    return BeamTree(tree.sorted_root(), best, beam, search.alpha)


class _Tree:
    """Nodes by the tokens that lead to them."""

    def __init__(self, record: SearchRecord, tokenizer: SentencePiece) -> None:
        self._tokenizer = tokenizer
        self._distributions: dict[Path, np.ndarray] = {}
        root = Node(read_tokens(tokenizer, [START])[0], 1.0, 0.0)
        self._nodes: dict[Path, Node] = {(START,): root}
        for paths, rows in zip(record.paths(), record.log_probabilities, strict=True):
            for path, row in zip(paths, rows, strict=True):
                # Rows of the first step are alike, and a beam wider than the vocabulary has
                # impossible hypotheses.
                if path not in self._distributions and self._add(path):
                    self._distributions[path] = row

    def _add(self, path: Path) -> bool:
        """Add the node of a path whose parent is there; return whether it is possible."""
        if path in self._nodes:
            return True
        parent = self._nodes.get(path[:-1])
        row = self._distributions.get(path[:-1])
        if parent is None or row is None or row[path[-1]] < INVALID_BELOW:
            return False
        added = float(row[path[-1]])
        token = read_tokens(self._tokenizer, path[-1:])[0]
        node = Node(token, math.exp(added), parent.log_probability + added)
        self._nodes[path] = node
        parent.children.append(node)
        return True

    def add_hypothesis(self, path: Path, score: float, finished: bool) -> None:
        if self._add(path) and finished:
            self._nodes[path].finished, self._nodes[path].score = True, score

    def mark(self, path: Path) -> None:
        for end in range(1, len(path) + 1):
            if node := self._nodes.get(path[:end]):
                node.best = True

    def sorted_root(self) -> Node:
        """Return the root; children are ordered, the best path first, then by probability."""
        for node in self._nodes.values():
            node.children.sort(key=lambda child: (not child.best, -child.probability))
        return self._nodes[(START,)]
