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
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.inference.forbidden_tokens import forbidden_tokens
from keras_transformer.inference.search.generate import generate
from keras_transformer.inference.search.hypotheses import INVALID_BELOW
from keras_transformer.inference.search.step_function import as_steps
from keras_transformer.inference.translator import Translator
from keras_transformer.special_tokens import START
from keras_transformer.visualize.beam_drawing import draw
from keras_transformer.visualize.search_record import RecordingSteps, SearchRecord
from keras_transformer.visualize.sentence import encode_source
from keras_transformer.visualize.tokens import Token, read_tokens

TokenPath = tuple[int, ...]
"""Ids of a hypothesis from START on."""


@dataclass
class Node:
    """A live or finished hypothesis of the search: the node of its last token."""

    token: Token
    probability: float
    """Of the token, given the tokens before it."""
    log_probability: float
    """Of all tokens from the root on."""
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
        """Explanation of the drawing."""
        return (
            f"Beam search with {self.beam} live hypotheses, length penalty α = {self.alpha:g}. "
            "Each node is the last token of a live hypothesis, with its probability given the "
            "tokens to its left. Branches without [end] were dropped, or the search stopped "
            "before they ended. [end] shows the score: log-probability / length penalty."
        )

    def svg(self) -> str:
        """Return the drawing as the text of an SVG file."""
        return draw(self.root)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'


def beam_tree(
    translator: Translator, sentence: str, search: SearchConfig | None = None
) -> BeamTree:
    """Translate a sentence and return the hypotheses of the search.

    Args:
        translator: The trained model.
        sentence: The source.
        search: Options of the search; None: the translator's. Sampling becomes beam search.

    Raises:
        TranslationError: The sentence is blank or too long.
    """
    source = encode_source(translator, sentence)
    return search_tree(translator, source, search or translator.search)


def search_tree(translator: Translator, source: Sequence[int], search: SearchConfig) -> BeamTree:
    """Return the hypothesis tree of source tokens; see `beam_tree`."""
    beam = search.beam
    # Return all finished hypotheses; `required` keeps the stopping condition of the given search.
    all_finished = dataclasses.replace(
        search, sample=False, temperature=1.0, top_k=0, top_p=1.0, n_best=beam
    )
    record = SearchRecord()

    def recorded_start(ids: tf.Tensor, width: int) -> tuple[RecordingSteps, Any]:
        step, state = translator.start(ids, width)
        return RecordingSteps(as_steps(step, width), record), state

    required = tf.constant(min(search.n_best, beam))
    found = generate(
        recorded_start,
        tf.constant([list(source)]),
        all_finished,
        required=required,
        forbidden=forbidden_tokens(search, translator.tokenizer.target),
        source_end=translator.data.source_end,
    )
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
    """Builder of a hypothesis tree, with nodes by path."""

    def __init__(self, record: SearchRecord, tokenizer: LanguageTokenizer) -> None:
        self._tokenizer = tokenizer
        self._distributions: dict[TokenPath, np.ndarray] = {}
        root = Node(read_tokens(tokenizer, [START])[0], 1.0, 0.0)
        self._nodes: dict[TokenPath, Node] = {(START,): root}
        for paths, rows in zip(record.paths(), record.log_probabilities, strict=True):
            for path, row in zip(paths, rows, strict=True):
                # In the first step all rows are equal, and a beam wider than the vocabulary has
                # impossible hypotheses.
                if path not in self._distributions and self._add(path):
                    self._distributions[path] = row

    def _add(self, path: TokenPath) -> bool:
        """Add the node of a path if its parent exists; return False for an impossible one."""
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

    def add_hypothesis(self, path: TokenPath, score: float, finished: bool) -> None:
        if self._add(path) and finished:
            self._nodes[path].finished, self._nodes[path].score = True, score

    def mark(self, path: TokenPath) -> None:
        for end in range(1, len(path) + 1):
            if node := self._nodes.get(path[:end]):
                node.best = True

    def sorted_root(self) -> Node:
        """Return the root, with children sorted: the best path first, then by probability."""
        for node in self._nodes.values():
            node.children.sort(key=lambda child: (not child.best, -child.probability))
        return self._nodes[(START,)]
