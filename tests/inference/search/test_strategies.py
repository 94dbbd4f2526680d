"""Search over scripted step functions, compared with plain Python on the same tables."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.config import SearchConfig
from keras_transformer.inference.search import strategies
from keras_transformer.inference.search.hypotheses import Hypotheses
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN, source_tokens

KEYS = 10_007  # as those of a scripted model
SPECIALS = {PAD, UNKNOWN, START}


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis in plain Python."""

    finished: bool
    score: float
    tokens: tuple[int, ...]


def penalty(length: int, alpha: float, form: str = "gnmt") -> float:
    return (length if form == "power" else (5 + length) / 6) ** alpha


def exhaustive(model, key: int, limit: int, alpha: float, form: str) -> list[Hypothesis]:
    """Return all hypotheses within the limit: finished ones first, then by score."""
    words = [token for token in model.allowed() if token != END]
    sequences = [
        (*body, END) for n in range(limit) for body in itertools.product(words, repeat=n)
    ] + list(itertools.product(words, repeat=limit))
    every = [
        Hypothesis(
            tokens[-1] == END, model.forced(key, tokens) / penalty(len(tokens), alpha, form), tokens
        )
        for tokens in sequences
    ]
    return sorted(every, key=lambda hypothesis: (-hypothesis.finished, -hypothesis.score))


def plain_beam(
    model, key: int, limit: int, alpha: float, beam: int, form: str = "gnmt"
) -> list[Hypothesis]:
    """Beam search on lists, without early stop; keeps all finished hypotheses."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        extended = []
        for total, tokens in live:
            row = model.log_probabilities(key, tokens)
            extended += [(total + row[token], (*tokens, token)) for token in model.allowed()]
        extended = sorted(extended, reverse=True)[: 2 * beam]
        finished += [
            Hypothesis(True, total / penalty(length, alpha, form), tokens)
            for total, tokens in extended
            if tokens[-1] == END
        ]
        live = [item for item in extended if item[1][-1] != END][:beam]
    finished.sort(key=lambda hypothesis: -hypothesis.score)
    divisor = penalty(limit, alpha, form)
    return finished + [Hypothesis(False, total / divisor, tokens) for total, tokens in live]


def plain_greedy(model, key: int, limit: int) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    while len(tokens) < limit and tokens[-1:] != (END,):
        row = model.log_probabilities(key, tokens)
        tokens = (*tokens, max(model.allowed(), key=lambda token: row[token]))
    return tokens


def run(model, keys, limits, *, beam, alpha=0.6, form="gnmt", n_best=1, spare=0, required=None):
    return strategies.beam_search(
        model.step,
        model.start(keys, beam),
        tf.constant(limits, tf.int32),
        beam=beam,
        alpha=alpha,
        length_penalty=form,
        n_best=n_best,
        spare=spare,
        required=required,
    )


def unpack(result: Hypotheses, sentence: int) -> list[Hypothesis]:
    """Return a sentence's hypotheses after checking the invariants of each."""
    rows = []
    for tokens, length, score, finished in zip(
        result.tokens[sentence].numpy(),
        result.lengths[sentence].numpy(),
        result.scores[sentence].numpy(),
        result.finished[sentence].numpy(),
        strict=True,
    ):
        assert not tokens[length:].any(), "padding after the end"
        own = tuple(int(token) for token in tokens[:length])
        assert not SPECIALS & set(own)
        assert END not in own[:-1], "a finished hypothesis was extended"
        assert bool(finished) == (own[-1:] == (END,))
        if length:
            rows.append(Hypothesis(bool(finished), float(score), own))
        else:
            assert score in (0.0, -1e9), "no hypothesis, or no token possible"
    return rows


def check_equal(
    got: list[Hypothesis], expected: list[Hypothesis], model, key, alpha, form="gnmt"
) -> None:
    """Check order and scores, and that each score is the forced score."""
    assert [item.finished for item in got] == [item.finished for item in expected]
    np.testing.assert_allclose(
        [item.score for item in got], [item.score for item in expected], rtol=1e-4, atol=1e-4
    )
    for item in got:
        forced = model.forced(key, item.tokens) / penalty(len(item.tokens), alpha, form)
        assert item.score == pytest.approx(forced, rel=1e-4, abs=1e-4)
    assert len({item.tokens for item in got}) == len(got)


def check_same(first: list[Hypothesis], second: list[Hypothesis]) -> None:
    assert [item.tokens for item in first] == [item.tokens for item in second]
    np.testing.assert_allclose(
        [item.score for item in first], [item.score for item in second], rtol=1e-5, atol=1e-5
    )


seeds = st.integers(0, 2**31 - 1)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.5])
forms = st.sampled_from(["gnmt", "power"])


@settings(max_examples=25, deadline=None)
@given(
    seed=seeds, alpha=alphas, form=forms, limit=st.integers(1, 4), n_best=st.sampled_from([1, 16])
)
def test_a_beam_as_wide_as_the_tree_is_exhaustive(scripted, seed, alpha, form, limit, n_best):
    model = scripted(seed, vocabulary=6)  # END and two words: at most 16 live hypotheses
    result = run(model, [seed % KEYS], [limit], beam=16, n_best=n_best, alpha=alpha, form=form)
    every = exhaustive(model, seed % KEYS, limit, alpha, form)
    check_equal(unpack(result, 0), every[:n_best], model, seed % KEYS, alpha, form)


@settings(max_examples=12, deadline=None)
@given(
    seed=seeds,
    alpha=alphas,
    form=forms,
    limit=st.integers(5, 15),
    end_bias=st.sampled_from([-2.0, 0.0, 2.0]),
)
def test_early_stop_never_misses_a_better_length(scripted, seed, alpha, form, limit, end_bias):
    model = scripted(seed, vocabulary=5, end_bias=end_bias)  # END and one word: a chain
    result = run(model, [seed % KEYS], [limit], beam=2, n_best=1, alpha=alpha, form=form)
    every = exhaustive(model, seed % KEYS, limit, alpha, form)
    check_equal(unpack(result, 0), every[:1], model, seed % KEYS, alpha, form)


@settings(max_examples=25, deadline=None)
@given(
    seed=seeds,
    alpha=alphas,
    form=forms,
    beam=st.integers(2, 5),
    n_best=st.integers(1, 5),
    limit=st.integers(1, 12),
    vocabulary=st.integers(5, 9),
    end_bias=st.sampled_from([-4.0, 0.0, 2.0]),
)
def test_early_stop_changes_nothing(
    scripted, seed, alpha, form, beam, n_best, limit, vocabulary, end_bias
):
    n_best = min(n_best, beam)
    model = scripted(seed, vocabulary, end_bias=end_bias)
    result = run(model, [seed % KEYS], [limit], beam=beam, n_best=n_best, alpha=alpha, form=form)
    expected = plain_beam(model, seed % KEYS, limit, alpha, beam, form)
    check_equal(unpack(result, 0), expected[:n_best], model, seed % KEYS, alpha, form)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, alpha=alphas, form=forms, limit=st.integers(1, 12))
def test_beam_of_one_is_greedy(scripted, seed, alpha, form, limit):
    model = scripted(seed, vocabulary=9)
    (got,) = unpack(run(model, [seed % KEYS], [limit], beam=1, alpha=alpha, form=form), 0)
    assert got.tokens == plain_greedy(model, seed % KEYS, limit)
    forced = model.forced(seed % KEYS, got.tokens) / penalty(len(got.tokens), alpha, form)
    assert got.score == pytest.approx(forced, rel=1e-4, abs=1e-4)


@settings(max_examples=10, deadline=None)
@given(
    seed=seeds,
    beam=st.integers(1, 4),
    limits=st.lists(st.integers(0, 9), min_size=2, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_results_do_not_depend_on_the_batch(scripted, seed, beam, limits, order):
    model = scripted(seed, vocabulary=8)
    keys = [(seed + 17 * sentence) % KEYS for sentence in range(len(limits))]
    places = list(range(len(limits)))
    order.shuffle(places)
    together = run(
        model, [keys[p] for p in places], [limits[p] for p in places], beam=beam, n_best=beam
    )
    for row, place in enumerate(places):
        alone = run(model, [keys[place]], [limits[place]], beam=beam, n_best=beam)
        check_same(unpack(alone, 0), unpack(together, row))


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10**6), required=st.integers(1, 3), beam=st.integers(3, 4))
def test_required_hypotheses_equal_those_of_the_whole_search(scripted, seed, required, beam):
    model = scripted(seed, vocabulary=7)
    keys, limits = [seed % KEYS, 5, 77], [7, 3, 5]
    whole = run(model, keys, limits, beam=beam, n_best=3)
    some = run(model, keys, limits, beam=beam, n_best=3, required=required)
    for sentence in range(3):
        check_same(unpack(some, sentence)[:required], unpack(whole, sentence)[:required])


@settings(deadline=None, max_examples=10)
@given(seed=seeds, n_best=st.integers(1, 3), spare=st.integers(1, 9), end_bias=st.floats(-3, 3))
def test_reserve_hypotheses_are_complete_and_change_no_others(
    scripted, seed, n_best, spare, end_bias
):
    model = scripted(seed, vocabulary=7, end_bias=end_bias)
    keys, limits = [seed % KEYS, 5, 77], [7, 3, 1]
    usual = run(model, keys, limits, beam=3, n_best=n_best)
    more = run(model, keys, limits, beam=3, n_best=n_best, spare=spare)
    assert more.lengths.shape == (3, n_best + spare)
    for sentence, (key, limit) in enumerate(zip(keys, limits, strict=True)):
        several = unpack(more, sentence)
        check_same(several[:n_best], unpack(usual, sentence))
        every = plain_beam(model, key, limit, 0.6, 3)
        assert {item.tokens for item in several} <= {item.tokens for item in every}
        expected = [item for item in every if item.tokens in {other.tokens for other in several}]
        check_equal(several, expected, model, key, 0.6)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_length_penalty_for_each_sentence(scripted, beam):
    model, keys, limits = scripted(3, vocabulary=7, end_bias=1.0), [1, 1, 1, 9], [8, 8, 8, 8]
    alphas = [0.0, 0.6, 3.0, 1.0]
    together = run(model, keys, limits, beam=beam, alpha=tf.constant(alphas), n_best=beam)
    for place, alpha in enumerate(alphas):
        alone = run(model, keys[place:][:1], limits[:1], beam=beam, alpha=alpha, n_best=beam)
        check_same(unpack(together, place), unpack(alone, 0))
    assert len({unpack(together, place)[0].score for place in range(3)}) == 3


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_limits_hold_for_each_sentence_and_unfinished_is_flagged(scripted, beam):
    model = scripted(1, vocabulary=8, end_bias=-np.inf)
    limits = [0, 1, 7, 3, 30]
    result = run(model, [5, 6, 7, 8, 9], limits, beam=beam, n_best=beam)
    assert result.lengths.numpy()[:, 0].tolist() == limits
    assert result.lengths.numpy().max(axis=1).tolist() == limits
    assert not result.finished.numpy().any()
    for sentence, limit in enumerate(limits):
        for hypothesis in unpack(result, sentence):
            forced = model.forced(5 + sentence, hypothesis.tokens) / penalty(limit, 0.6)
            assert hypothesis.score == pytest.approx(forced, rel=1e-4)


def test_finished_hypotheses_stand_before_better_unfinished_ones():
    # Two words of 0.49 each and END of 0.02: ending costs more than going on to the limit.
    logits = np.full((1, 6), -100.0, np.float32)
    logits[0, [END, 4, 5]] = np.log([0.02, 0.49, 0.49])

    def step(tokens, position, state):
        return tf.repeat(tf.constant(logits), tf.shape(tokens)[0], axis=0), state

    result = strategies.beam_search(
        step, tf.zeros([2, 1]), tf.constant([2]), beam=2, alpha=0.0, n_best=2
    )
    # By hand: END at once (0.02) beats word, END (0.0098); both beat nothing unfinished,
    # although word, word has 0.2401.
    assert result.finished.numpy().tolist() == [[True, False]]
    assert result.lengths.numpy().tolist() == [[1, 2]]
    np.testing.assert_allclose(
        result.log_probabilities.numpy(), [np.log([0.02, 0.2401])], rtol=1e-5
    )


def test_length_penalty_by_hand():
    # END at once has P = 0.4; word, END has 0.6 * 0.6 = 0.36. With alpha 0 the short one wins;
    # with alpha 1 the scores are log .4 / 1 = -.9163 and log .36 / (7/6) = -.8757.
    rows = np.full((2, 5), -100.0, np.float32)
    rows[0, [END, 4]] = np.log([0.4, 0.6])
    rows[1, [END, 4]] = np.log([0.6, 0.4])

    def step(tokens, position, state):
        row = tf.minimum(position, 1)
        return tf.repeat(tf.constant(rows)[row : row + 1], tf.shape(tokens)[0], axis=0), state

    def best(alpha):
        state = tf.zeros([2])
        return strategies.beam_search(step, state, tf.constant([9]), beam=2, alpha=alpha)

    assert best(0.0).lengths.numpy().tolist() == [[1]]
    np.testing.assert_allclose(best(0.0).scores.numpy(), [[math.log(0.4)]], rtol=1e-5)
    assert best(1.0).lengths.numpy().tolist() == [[2]]
    np.testing.assert_allclose(best(1.0).scores.numpy(), [[math.log(0.36) * 6 / 7]], rtol=1e-5)


# A short and a long hypothesis: END has these probabilities step by step, and one word the rest.
SHORT_OR_LONG = [
    # END: P = 0.4, log P = -.9163. Word, END: P = 0.6 * 0.5 = 0.3, log P = -1.2040.
    (1.0, [0.4, 0.5], "gnmt", [(1, -0.9163), (2, -1.0320)]),  # log P / 1, log P / (7/6)
    (1.0, [0.4, 0.5], "power", [(2, -0.6020), (1, -0.9163)]),  # log P / 2, log P / 1
    # 3 tokens: P = 0.5, log P = -.6931. 8 tokens: P = 0.5 * 0.4 = 0.2, log P = -1.6094.
    (1.0, [0, 0, 0.5, 0, 0, 0, 0, 0.4], "gnmt", [(3, -0.5199), (8, -0.7428)]),  # 8/6, 13/6
    (1.0, [0, 0, 0.5, 0, 0, 0, 0, 0.4], "power", [(8, -0.2012), (3, -0.2310)]),
    # 4 tokens: P = 0.3, log P = -1.2040. 9 tokens: P = 0.7 * 0.2 = 0.14, log P = -1.9661.
    # gnmt divides by (9/6)^.7 and (14/6)^.7, power by 4^.7 and 9^.7.
    (0.7, [0, 0, 0, 0.3, 0, 0, 0, 0, 0.2], "gnmt", [(4, -0.9065), (9, -1.0865)]),
    (0.7, [0, 0, 0, 0.3, 0, 0, 0, 0, 0.2], "power", [(9, -0.4223), (4, -0.4562)]),
]


@pytest.mark.parametrize(("alpha", "chances", "form", "ranks"), SHORT_OR_LONG)
def test_forms_of_the_length_penalty_rank_differently(alpha, chances, form, ranks):
    table = np.full((len(chances) + 1, 5), -100.0, np.float32)
    table[: len(chances), END] = np.log(np.maximum(chances, 1e-30))
    table[: len(chances), 4] = np.log(1 - np.array(chances))
    table[len(chances), 4] = 0.0

    def step(tokens, position, state):
        row = tf.minimum(position, len(chances))
        return tf.repeat(tf.constant(table)[row : row + 1], tf.shape(tokens)[0], axis=0), state

    result = strategies.beam_search(
        step,
        tf.zeros([2]),
        tf.constant([10]),
        beam=2,
        alpha=alpha,
        length_penalty=form,
        n_best=2,
    )
    assert result.lengths.numpy()[0].tolist() == [length for length, _ in ranks]
    expected = [score for _, score in ranks]
    np.testing.assert_allclose(result.scores.numpy()[0], expected, atol=6e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_search_stops_once_nothing_can_improve(beam):
    calls = []

    def step(tokens, position, state):  # END is nearly certain from the start
        calls.append(int(position))
        row = tf.constant([[0.0, 0.0, 0.0, 30.0, 1.0, 0.5]])
        return tf.repeat(row, tf.shape(tokens)[0], axis=0), state

    result = strategies.beam_search(
        step, tf.zeros([2 * beam]), tf.constant([100, 50]), beam=beam, alpha=0.6
    )
    assert calls == [0]
    assert result.lengths.numpy().tolist() == [[1], [1]]


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_forbidden_tokens_never_appear_however_likely(scripted, beam):
    model = scripted(3, vocabulary=12)
    model.table[:, [PAD, UNKNOWN, START]] += 20.0
    result = run(model, [1, 2, 3], [6, 6, 6], beam=beam, n_best=beam)
    for key, sentence in zip([1, 2, 3], range(3), strict=True):
        hypotheses = unpack(result, sentence)  # checks the tokens
        if beam == 1:
            assert hypotheses[0].tokens == plain_greedy(model, key, 6)
        else:
            check_equal(hypotheses, plain_beam(model, key, 6, 0.6, beam)[:beam], model, key, 0.6)


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_impossible_tokens_leave_everything_finite(scripted, beam):
    model = scripted(4, vocabulary=7)
    model.table[:, 5:] = -np.inf
    result = run(model, [1, 2], [5, 3], beam=beam, n_best=beam)
    for values in (result.scores, result.log_probabilities):
        assert np.isfinite(values.numpy()).all()
    for sentence in range(2):
        assert all(5 not in hypothesis.tokens for hypothesis in unpack(result, sentence))


@pytest.mark.parametrize("beam", [1, 3])
def test_without_any_possible_token_the_partial_hypothesis_is_returned(scripted, beam):
    model = scripted(4, vocabulary=6)
    model.table[:, END:] = -np.inf  # only forbidden ones are left
    result = run(model, [1, 2], [5, 3], beam=beam)
    assert result.lengths.numpy().tolist() == [[0], [0]]
    assert not result.finished.numpy().any()


@pytest.mark.parametrize("beam", [1, 4])
def test_an_empty_batch(scripted, beam):
    result = run(scripted(1, vocabulary=6), [], [], beam=beam, n_best=beam)
    assert result.tokens.shape[:2] == (0, beam)
    assert result.scores.shape == (0, beam)


@pytest.mark.parametrize("beam", [1, 3])
def test_finished_sentences_are_dropped_from_the_batch(scripted, beam):
    model = scripted(8, vocabulary=9, end_bias=-np.inf)  # every sentence goes on to its limit
    rows = []

    def step(tokens, position, state):
        rows.append(len(tokens))
        return model.step(tokens, position, state)

    limits = [3] * 6 + [9, 40]
    strategies.beam_search(
        step, model.start(list(range(8)), beam), tf.constant(limits), beam=beam, alpha=0.6
    )
    assert [count // beam for count in rows] == [8] * 3 + [2] * 6 + [1] * 31


@pytest.mark.parametrize("beam", [1, 3])
def test_one_trace_for_all_batches_and_no_xla(scripted, beam):
    model = scripted(8, vocabulary=9)
    traces = []

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)],
        autograph=False,
    )
    def compiled(keys, limits):
        traces.append(1)
        state = {
            "key": tf.repeat(tf.cast(keys, tf.int64), beam),
            "prefix": tf.zeros([tf.shape(keys)[0] * beam, 0], tf.int64),
        }
        return strategies.beam_search(model.step, state, limits, beam=beam, alpha=0.6, n_best=beam)

    for keys, limits in [([1], [9]), ([1, 2, 3], [9, 2, 5]), ([4, 1], [3, 9]), ([], [])]:
        graph = compiled(tf.constant(keys, tf.int32), tf.constant(limits, tf.int32))
        eager = run(model, keys, limits, beam=beam, n_best=beam)
        for sentence in range(len(keys)):
            check_same(unpack(graph, sentence), unpack(eager, sentence))
    assert len(traces) == 1
    definition = compiled.get_concrete_function().graph.as_graph_def()
    names = {node.op for node in definition.node}
    names |= {node.op for function in definition.library.function for node in function.node_def}
    assert not [name for name in names if name.startswith("Xla")]


def test_a_bfloat16_model_is_scored_in_float32(scripted):
    model = scripted(8, vocabulary=9)

    def step(tokens, position, state):
        logits, state = model.step(tokens, position, state)
        return tf.cast(logits, tf.bfloat16), state

    result = strategies.beam_search(step, model.start([1], 3), tf.constant([6]), beam=3, alpha=0.6)
    assert result.scores.dtype == tf.float32
    assert result.lengths.numpy()[0, 0] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam: expected 1 or more, got 0"),
        ({"beam": 2, "n_best": 3}, r"n_best: expected 1 to beam \(2\), got 3"),
        ({"beam": 2, "alpha": -1.0}, "alpha: expected 0 or more, got -1.0"),
        ({"beam": 2, "form": "Power"}, "length_penalty: expected gnmt or power, got 'Power'"),
        ({"beam": 1, "form": ""}, "length_penalty: expected gnmt or power, got ''"),
    ],
)
def test_bad_options_are_refused(scripted, options, message):
    with pytest.raises(ValueError, match=message):
        run(scripted(1, vocabulary=6), [1], [3], **options)


def test_length_limits_count_neither_end_nor_padding():
    source = tf.constant([[7, 8, 9, END], [7, END, PAD, PAD], [END, PAD, PAD, PAD]])
    assert strategies.length_limits(source, 50).numpy().tolist() == [53, 51, 50]


def test_length_limits_without_end_count_all_tokens_but_that_of_an_empty_source():
    source = tf.constant([[7, UNKNOWN, 9], [7, PAD, PAD], [END, PAD, PAD]])
    found = strategies.length_limits(source, 50, source_end=False)
    assert found.numpy().tolist() == [53, 51, 50]


@pytest.mark.parametrize("source_end", [True, False])
@settings(max_examples=40, deadline=None)
@given(
    tokens=st.integers(0, 70),
    factor=st.floats(0, 1000) | st.integers(0, 300).map(lambda n: n / 100),
    extra=st.integers(1, 60),
    length=st.integers(0, 90),
)
def test_length_limits_are_those_of_the_configuration(source_end, tokens, factor, extra, length):
    search = SearchConfig(max_factor=factor, max_extra=extra, max_length=length)
    source = tf.constant([source_tokens([7] * tokens, source_end)])
    (limit,) = strategies.length_limits(
        source, extra, max_factor=factor, max_length=length, source_end=source_end
    ).numpy()
    assert limit == search.length_limit(tokens)


def test_length_limits_are_at_least_one():
    source = tf.constant([[7, 7, 7, END]])
    limits = strategies.length_limits(source, tf.constant([0]), max_factor=0.3)
    assert limits.numpy().tolist() == [1]
