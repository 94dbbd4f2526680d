"""Entropy, distance and role of made-up heads."""

from __future__ import annotations

import numpy as np
import pytest

from keras_transformer.visualize.heads import (
    RULES,
    AttentionKind,
    entropy,
    head_statistics,
    mean_distance,
)
from tests.visualize.fake_views import END, shifted, words

FIVE = (*words("a", "b", "c", "d"), END)


def test_entropy_is_ln_n_for_even_weights_and_0_for_one_key() -> None:
    weights = np.array([[0.25] * 4, [0, 1, 0, 0], [0.5, 0.5, 0, 0]])

    np.testing.assert_allclose(entropy(weights), [np.log(4), 0, np.log(2)])


def test_mean_distance_by_hand() -> None:
    weights = np.array([[0.5, 0.25, 0.25], [0, 1, 0], [0.5, 0, 0.5]])

    # 0.25 * 1 + 0.25 * 2; 0; 0.5 * 2
    np.testing.assert_allclose(mean_distance(weights), [0.75, 0, 1])


@pytest.mark.parametrize(
    ("kind", "weights", "role"),
    [
        ("encoder", shifted(5, 5, -1), "previous token"),
        ("encoder", shifted(5, 5, 1), "next token"),
        ("encoder", shifted(5, 5, 0), "same token"),
        ("encoder", np.tile([0.1, 0.1, 0.1, 0.1, 0.6], (5, 1)), "separator"),
        ("encoder", np.full((5, 5), 0.2), "diffuse"),
        ("encoder", np.tile([0.45, 0.45, 0.1, 0, 0], (5, 1)), "mixed"),
        ("cross", shifted(5, 5, 0), "alignment"),
        ("cross", np.tile([0.9, 0.1, 0, 0, 0], (5, 1)), "mixed"),  # one token for all rows
        ("decoder", np.tril(np.full((5, 5), 0.05)) + np.diag([0.9] * 4, -1), "previous token"),
    ],
)
def test_roles_of_made_up_heads(kind: AttentionKind, weights: np.ndarray, role: str) -> None:
    found = head_statistics(weights, kind, FIVE, FIVE)

    assert found.role == role
    assert role in RULES


def test_the_first_row_of_the_decoder_is_left_out() -> None:
    """It can only look at the start token, which would count as a separator and as distance 0."""
    weights = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])

    found = head_statistics(weights, "decoder", words("a", "b", "c"), words("a", "b", "c"))

    assert found.distance == 1
    assert found.max_entropy == pytest.approx((np.log(2) + np.log(3)) / 2)
    assert (found.role, found.role_weight) == ("previous token", 1)


def test_two_even_keys_of_a_sentence_of_one_word() -> None:
    tokens = (*words("a"), END)

    found = head_statistics(np.full((2, 2), 0.5), "cross", tokens, tokens, layer=3, head=1)

    assert (found.layer, found.head) == (3, 1)
    assert found.entropy == pytest.approx(found.max_entropy)
