"""Hypothesis tree of a scripted search."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DataConfig, SearchConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.special_tokens import END
from keras_transformer.visualize.beam import BeamTree, Node, search_tree
from tests.visualize.test_tokens import Pieces

A, B = 4, 5
NEXT = {  # probabilities of END, A and B after each token
    2: (0.1, 0.6, 0.3),
    A: (0.5, 0.2, 0.3),
    B: (0.9, 0.05, 0.05),
}


def scripted(beam: int, **search: Any) -> BeamTree:
    def start(source: tf.Tensor, width: int) -> tuple[Any, tf.Tensor]:
        def step(tokens: tf.Tensor, position: tf.Tensor, state: tf.Tensor) -> Any:
            rows = np.full((len(tokens), 6), 1e-9)
            for row, token in enumerate(tokens.numpy()):
                rows[row, [END, A, B]] = NEXT[int(token)]
            return tf.math.log(tf.constant(rows, tf.float32)), state

        return step, tf.zeros([width * 1])

    pieces = Pieces("▁a", "▁b")
    translator = SimpleNamespace(
        start=start, tokenizer=SimpleNamespace(target=pieces), data=DataConfig()
    )
    config = SearchConfig(beam=beam, max_extra=3, alpha=0.0, **search)
    return search_tree(cast(Translator, translator), [A, END], config)


def child(node: Node, *path: str) -> Node:
    for name in path:
        (node,) = (each for each in node.children if each.token.spoken == name)
    return node


def test_tree_of_a_beam_of_two() -> None:
    tree = scripted(2)

    # a end: 0.6 * 0.5 = 0.3; b end: 0.3 * 0.9 = 0.27
    assert tree.tokens == (A, END)
    best = child(tree.root, "a", "end")
    assert best.finished
    assert best.best
    assert best.score == pytest.approx(math.log(0.3), abs=1e-5)
    other = child(tree.root, "b", "end")
    assert other.log_probability == pytest.approx(math.log(0.27), abs=1e-5)
    assert not other.best
    assert [each.token.spoken for each in tree.root.children] == ["a", "b", "end"]
    assert child(tree.root, "a").probability == pytest.approx(0.6, abs=1e-5)


@pytest.mark.slow
def test_greedy_search_is_a_chain() -> None:
    tree = scripted(1)

    assert tree.tokens == (A, END)
    assert [each.token.spoken for each in tree.root.children] == ["a"]


@pytest.mark.slow
def test_sampling_is_replaced_by_beam_search() -> None:
    assert scripted(2, sample=True, temperature=0.5, n_best=7).tokens == (A, END)


def test_drawing_has_a_box_for_each_node_and_escapes_texts() -> None:
    tree = scripted(2)
    child(tree.root, "b").token = child(tree.root, "b").token._replace(label="<b>&")

    svg = tree.svg()

    def count(node: Node) -> int:
        return 1 + sum(map(count, node.children))

    assert svg.count("<rect") == count(tree.root)
    assert "&lt;b&gt;&amp;</text>" in svg
    assert "overflow-x" in tree._repr_html_()
