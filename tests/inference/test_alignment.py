"""Attention averaged over heads, and links between words and pieces."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.alignment import Attention, attention_matrix, links

LABELS = tf.constant([[7, 3], [3, 0]])


def layer(*heads):
    """(2, H, 2, 2): the same heads for both sentences."""
    return tf.constant([list(heads)] * 2)


FIRST = layer([[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]])
SECOND = layer([[0.2, 0.8], [1.0, 0.0]], [[0.6, 0.4], [0.0, 1.0]])
LAST = layer([[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([FIRST, SECOND, LAST], [[0.4, 0.6], [0.5, 0.5]]),
        ([FIRST, LAST], [[0.5, 0.5], [0.5, 0.5]]),
        ([LAST], [[0.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_mean_over_heads_of_the_last_layer_but_one(layers, expected) -> None:
    matrices = attention_matrix(layers, LABELS).numpy()
    np.testing.assert_allclose(matrices[0], expected, atol=1e-7)
    np.testing.assert_allclose(matrices[1], [expected[0], [0.0, 0.0]], atol=1e-7)  # padding


WEIGHTS = np.array(
    [
        [0.4, 0.0, 0.3, 0.3],
        [0.1, 0.3, 0.2, 0.4],
        [0.1, 0.1, 0.7, 0.1],
        [0.0, 0.0, 0.1, 0.9],
    ]
)


def test_links_by_hand():
    # The first target word has two pieces, the first source word too: .4 + 0 + .1 + .3 = .8
    # against .3 + .2 = .5. The second attends to the second. The end column is no word.
    assert links(WEIGHTS, [0, 0, 1], [0, 0, 1]) == [(0, 0), (1, 1)]
    # Piece by piece: .4 of the first row, .3 of the second, .7 of the third.
    assert links(WEIGHTS, range(3), range(3)) == [(0, 0), (1, 1), (2, 2)]


def test_without_words_there_are_no_links():
    assert links(WEIGHTS, [], [0]) == []
    assert links(WEIGHTS, [0], []) == []


@pytest.mark.parametrize("source_ends", [True, False])
@pytest.mark.parametrize("target_ends", [True, False])
def test_pieces_without_the_end_token(source_ends, target_ends):
    end = ("</s>",)
    attention = Attention(
        source=("a", "b", *end * source_ends),
        target=("c", *end * target_ends),
        weights=np.array([[0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])[: 1 + target_ends, : 2 + source_ends],
        source_words=(0, 1),
        target_words=(0,),
        source_ends=source_ends,
        target_ends=target_ends,
    )
    assert (attention.source_pieces, attention.target_pieces) == (("a", "b"), ("c",))
    assert attention.links == attention.piece_links == [(1, 0)]
