"""Minimum length, no repeated n-gram and forced prefixes, in every search over scripted models."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.inference.search import strategies
from keras_transformer.inference.search.candidates import NO_TOKEN
from keras_transformer.inference.search.constraints import (
    Constraints,
    no_end_before,
    no_repeat_ngram,
)
from keras_transformer.inference.search.hypotheses import Hypotheses
from keras_transformer.inference.search.sampling import Sampling
from keras_transformer.special_tokens import END, PAD

KEYS = 10_007  # as those of a scripted model

# Constraints in plain Python: minimum length, size of n-grams, prefix.
Plain = tuple[int, int, tuple[int, ...]]


def allowed(model, limit: int, constraints: Plain, tokens: tuple[int, ...]) -> list[int]:
    """Return the tokens that may come next."""
    min_length, size, prefix = constraints
    if len(tokens) < len(prefix):
        return [prefix[len(tokens)]]
    free = model.allowed()
    if len(tokens) < min(min_length, limit - 1):
        free.remove(END)
    if size:
        there = {tokens[place : place + size] for place in range(len(tokens) - size + 1)}
        free = [token for token in free if (*tokens, token)[-size:] not in there]
    return free


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def plain_greedy(model, key: int, limit: int, constraints: Plain) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    while len(tokens) < limit and tokens[-1:] != (END,):
        row = model.log_probabilities(key, tokens)
        possible = allowed(model, limit, constraints, tokens)
        if not possible:
            break
        tokens = (*tokens, max(possible, key=lambda token: row[token]))
    return tokens


def all_sequences(model, limit: int, constraints: Plain) -> list[tuple[int, ...]]:
    """Return all token sequences that end, or that reach the limit."""
    whole, open_ended = [], [()]
    while open_ended:
        tokens = open_ended.pop()
        for token in allowed(model, limit, constraints, tokens):
            longer = (*tokens, token)
            (whole if token == END or len(longer) == limit else open_ended).append(longer)
    return whole


def as_constraints(several: list[Plain]) -> Constraints:
    """Return the constraints of a batch; minimum length and n-gram size are those of the first."""
    width = max(len(prefix) for *_, prefix in several)
    prefixes = [[*prefix, *[PAD] * (width - len(prefix))] for *_, prefix in several]
    prefix = tf.constant(prefixes, tf.int32, shape=[len(several), width])
    return Constraints(min_length=several[0][0], no_repeat_ngram=several[0][1], prefix=prefix)


def beam_of(width: int):
    def search(model, keys, limits, constraints):
        return strategies.beam_search(
            model.step,
            model.start(keys, width),
            tf.constant(limits),
            beam=width,
            n_best=width,
            alpha=0.6,
            constraints=constraints,
        )

    return search


def samples_from(sampling: Sampling, number: int = 1):
    def search(model, keys, limits, constraints):
        return strategies.sample(
            model.step,
            model.start(keys, number),
            tf.constant(limits),
            tf.stack([tf.constant(keys), tf.constant(keys) + 3], 1),
            sampling=sampling,
            samples=number,
            alpha=0.6,
            constraints=constraints,
        )

    return search


def sequences_of(result: Hypotheses, sentence: int) -> list[tuple[int, ...]]:
    pairs = zip(result.tokens[sentence].numpy(), result.lengths[sentence].numpy(), strict=True)
    return [tuple(int(token) for token in tokens[:length]) for tokens, length in pairs]


constraint_sets = st.tuples(
    st.integers(0, 5), st.integers(0, 3), st.lists(st.integers(4, 5), max_size=3).map(tuple)
)
seeds = st.integers(0, 2**20)

GREEDY = {
    "greedy": beam_of(1),
    "the most probable one": samples_from(Sampling(top_k=1)),
    "cold": samples_from(Sampling(temperature=1e-5)),
    "a small share": samples_from(Sampling(top_p=1e-6)),
    "cold and few": samples_from(Sampling(temperature=1e-5, top_k=3)),
}


@pytest.mark.parametrize("search", GREEDY.values(), ids=GREEDY)
@settings(max_examples=6, deadline=None)
@given(seed=seeds, constraints=constraint_sets, limit=st.integers(1, 8))
def test_greedy_search_takes_the_best_allowed_token(scripted, search, seed, constraints, limit):
    model, key = scripted(seed, vocabulary=8), seed % KEYS
    (tokens,) = sequences_of(search(model, [key], [limit], as_constraints([constraints])), 0)
    assert tokens == plain_greedy(model, key, limit, constraints)


@settings(max_examples=12, deadline=None)
@given(seed=seeds, constraints=constraint_sets, limit=st.integers(1, 4))
def test_a_beam_as_wide_as_the_tree_is_exhaustive(scripted, seed, constraints, limit):
    model, key = scripted(seed, vocabulary=6), seed % KEYS  # END and two words
    result = beam_of(16)(model, [key], [limit], as_constraints([constraints]))
    every = sorted(
        all_sequences(model, limit, constraints),
        key=lambda tokens: (
            tokens[-1] != END,
            -model.forced(key, tokens) / penalty(len(tokens), 0.6),
        ),
    )[:16]
    assert sequences_of(result, 0)[: len(every)] == every
    if every:  # else all hypotheses stop before the limit
        assert not result.finished[0, len(every) :].numpy().any()


FREE = {
    "beam": beam_of(3),
    "samples": samples_from(Sampling(), 3),
    "samples of few": samples_from(Sampling(0.7, 4, 0.9), 3),
}


@pytest.mark.parametrize("search", FREE.values(), ids=FREE)
@settings(max_examples=3, deadline=None)
@given(
    seed=seeds,
    constraints=st.lists(constraint_sets, min_size=3, max_size=3),
    order=st.permutations([0, 1, 2]),
)
def test_constraints_hold_in_any_batch_with_forced_scores(
    scripted, search, seed, constraints, order
):
    model = scripted(seed, vocabulary=9)
    constraints = [(*constraints[0][:2], own[2]) for own in constraints]
    keys, limits = [seed % KEYS, 5, 77], [7, 3, 9]

    def run(places):
        return search(
            model,
            [keys[place] for place in places],
            [limits[place] for place in places],
            as_constraints([constraints[place] for place in places]),
        )

    together = run(order)
    for row, place in enumerate(order):
        prefix = constraints[place][2]
        for tokens, score in zip(
            sequences_of(together, row), together.scores[row].numpy(), strict=True
        ):
            assert tokens[: len(prefix)] == prefix[: len(tokens)]
            for end in range(len(prefix), len(tokens)):
                assert tokens[end] in allowed(
                    model, limits[place], constraints[place], tokens[:end]
                )
            if tokens:
                forced = model.forced(keys[place], tokens) / penalty(len(tokens), 0.6)
                assert score == pytest.approx(forced, rel=1e-4, abs=1e-4)
        alone = run([place])
        assert sequences_of(alone, 0) == sequences_of(together, row)
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-5, atol=1e-5)


def test_a_minimum_beyond_the_limit_leaves_room_for_the_end(scripted):
    model = scripted(2, vocabulary=7, end_bias=30.0)  # ends as soon as it may
    result = beam_of(2)(model, [1, 2, 3], [3, 1, 9], Constraints(min_length=5))
    assert result.lengths[:, 0].numpy().tolist() == [3, 1, 6]
    assert result.finished[:, 0].numpy().all()


def test_a_prefix_longer_than_the_limit_is_cut_there(scripted):
    result = beam_of(2)(
        scripted(2, vocabulary=7), [1], [2], Constraints(prefix=tf.constant([[4, 5, 6]]))
    )
    assert sequences_of(result, 0)[0] == (4, 5)
    assert not result.finished[0, 0]


@pytest.mark.parametrize("number", [1, 3])
def test_without_an_allowed_token_a_hypothesis_ends_unfinished(scripted, number):
    # Two words, none twice, and at least three before the end: stuck after two.
    constraints = Constraints(min_length=3, no_repeat_ngram=1)
    for search in (beam_of(number), samples_from(Sampling(), number)):
        result = search(scripted(2, vocabulary=6), [1], [9], constraints)
        assert len(sequences_of(result, 0)[0]) == 2
        assert not result.finished.numpy().any()
        assert np.isfinite(result.scores.numpy()).all()


def test_no_repeat_by_hand():
    # START, then the tokens; a token that followed the last two before is banned.
    tokens = tf.constant([[2, 5, 6, 7, 5, 6, 8, 5, 6], [2, 5, 5, 5, 5, 6, 7, 8, 9]])
    banned = no_repeat_ngram(3)(tokens, tf.constant(8)).numpy().tolist()
    assert [sorted(set(row) - {NO_TOKEN}) for row in banned] == [[7, 8], []]
    # With n = 1 all tokens so far are banned; START is forbidden anyway.
    banned = no_repeat_ngram(1)(tokens[:, :3], tf.constant(2)).numpy().tolist()
    assert banned == [[2, 5, 6], [2, 5, 5]]
    for position in range(3):  # shorter than a window
        shape = no_repeat_ngram(4)(tokens[:, : position + 1], tf.constant(position)).shape
        assert shape == (2, 0)


@pytest.mark.parametrize("size", [3, 1_000, 2**31 - 1])
def test_the_graph_of_no_repeat_does_not_grow_with_the_size(size):
    traced = tf.function(
        no_repeat_ngram(size),
        input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int32)],
    ).get_concrete_function()
    assert len(traced.graph.get_operations()) < 80
    tokens = tf.constant([[2, 5, 6, 5, 6]])
    banned = traced(tokens, tf.constant(4)).numpy().tolist()
    # Above the number of tokens there is no n-gram, and no work.
    assert banned == ([[NO_TOKEN, 5, NO_TOKEN]] if size == 3 else [[]])


def test_no_end_before_by_hand():
    constraint = no_end_before(tf.constant([0, 1, 2]), END)
    assert constraint(tf.zeros([3, 2], tf.int32), tf.constant(1)).numpy().tolist() == [
        [NO_TOKEN],
        [NO_TOKEN],
        [END],
    ]


@pytest.mark.parametrize("name", ["min_length", "no_repeat_ngram"])
def test_bad_constraints_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}: expected 0 or more, got -1"):
        Constraints(**{name: -1})
