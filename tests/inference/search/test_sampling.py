"""Samples of scripted models: the right distribution, determined by the seed alone."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.search import strategies
from keras_transformer.inference.search.constraints import Constraints
from keras_transformer.inference.search.hypotheses import Hypotheses
from keras_transformer.inference.search.sampling import Sampling, gumbel, sort_samples
from keras_transformer.special_tokens import END

DRAWS = 4_000


def seeds_of(number: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).integers(-(2**31), 2**31, (number, 2)), tf.int32)


def draw(
    model, limit: int, sampling: Sampling, constraints: Constraints | None = None
) -> np.ndarray:
    """Return the tokens, (DRAWS, limit), of sentences that differ in their seed only."""

    @tf.function(autograph=False)
    def run(seeds):
        five = tf.constant(5, tf.int64)
        state = {"key": tf.fill([DRAWS], five), "prefix": tf.zeros([DRAWS, 0], tf.int64)}
        limits = tf.fill([DRAWS], limit)
        return strategies.sample(
            model.step,
            state,
            limits,
            seeds,
            sampling=sampling,
            constraints=constraints or Constraints(),
        )

    return run(seeds_of(DRAWS)).tokens[:, 0].numpy()


def chi_squared(counts: np.ndarray, expected: np.ndarray) -> float:
    """Return Pearson's statistic; impossible tokens must not have been drawn."""
    assert not counts[expected == 0].any()
    real = expected > 0
    return float(((counts[real] - expected[real]) ** 2 / expected[real]).sum())


def bound(cells: int) -> float:
    """Return five standard deviations above the mean of the statistic."""
    freedom = cells - 1
    return freedom + 5 * math.sqrt(2 * freedom)


def distribution(model, sampling: Sampling, allowed: list[int]) -> np.ndarray:
    """Return the distribution of the first token, (V,) float64."""
    logs = model.log_probabilities(5, ())
    order = sorted(allowed, key=lambda token: -logs[token])[: sampling.top_k or None]
    shares = np.exp(logs[order] / sampling.temperature)
    shares /= shares.sum()
    kept = np.concatenate([[0.0], shares.cumsum()[:-1]]) < sampling.top_p
    result = np.zeros(model.vocabulary)
    result[order] = shares * kept / (shares * kept).sum()
    return result


@pytest.mark.parametrize(
    ("sampling", "cells"),
    [
        (Sampling(), 7),
        (Sampling(temperature=2.0), 7),
        (Sampling(temperature=0.5), 7),
        (Sampling(top_k=3), 3),
        (Sampling(top_p=0.8), 4),
        (Sampling(temperature=1.5, top_k=6, top_p=0.9), 5),
    ],
)
def test_draws_have_the_distribution_of_the_model(scripted, sampling, cells):
    model = scripted(1, vocabulary=10, spread=0.8)
    expected = distribution(model, sampling, model.allowed())
    assert (expected > 0).sum() == cells
    counts = np.bincount(draw(model, 1, sampling)[:, 0], minlength=10)
    assert chi_squared(counts, DRAWS * expected) < bound(cells)
    # The test can tell: the distribution at another temperature is out of bounds.
    other = distribution(
        model, Sampling(sampling.temperature * 1.5, sampling.top_k), model.allowed()
    )
    real = expected > 0
    other = np.where(real, other, 0) / other[real].sum()
    assert chi_squared(counts, DRAWS * other) > bound(cells)


def test_probability_of_banned_tokens_goes_to_the_others(scripted):
    model = scripted(1, vocabulary=10, spread=0.8)
    constraints = Constraints(min_length=1)
    for sampling in (Sampling(), Sampling(top_k=4)):
        drawn = draw(model, 2, sampling, constraints)[:, 0]
        without_end = [token for token in model.allowed() if token != END]
        expected = distribution(model, sampling, without_end)
        statistic = chi_squared(np.bincount(drawn, minlength=10), DRAWS * expected)
        assert statistic < bound(int((expected > 0).sum()))


def test_steps_are_drawn_independently(scripted):
    model = scripted(1, vocabulary=7, spread=0.8)
    drawn = draw(model, 2, Sampling(), Constraints(min_length=1))
    words = [token for token in model.allowed() if token != END]
    first = np.exp(model.log_probabilities(5, ())[words])
    expected = np.zeros([7, 7])
    for word, share in zip(words, first / first.sum(), strict=True):
        second = np.exp(model.log_probabilities(5, (word,))[model.allowed()])
        expected[word, model.allowed()] = share * second / second.sum()
    counts = np.zeros([7, 7])
    np.add.at(counts, (drawn[:, 0], drawn[:, 1]), 1)
    assert chi_squared(counts, DRAWS * expected) < bound(12)


def run(model, keys, seeds, samples=1, sampling=Sampling(), limit=6):  # noqa: B008
    return strategies.sample(
        model.step,
        model.start(keys, samples),
        tf.fill([len(keys)], limit),
        seeds,
        sampling=sampling,
        samples=samples,
        alpha=0.6,
    )


def sequences(result: Hypotheses, sentence: int) -> list[tuple[int, ...]]:
    pairs = zip(result.tokens[sentence].numpy(), result.lengths[sentence].numpy(), strict=True)
    return [tuple(tokens[:length].tolist()) for tokens, length in pairs]


def test_a_seed_draws_the_same_in_any_batch_and_another_seed_draws_others(scripted):
    model = scripted(9, vocabulary=12, spread=1.0)
    seeds = seeds_of(5)
    keys = [1, 2, 1, 3, 1]
    together = run(model, keys, seeds)
    for place in range(5):
        alone = run(model, keys[place : place + 1], seeds[place : place + 1])
        assert sequences(alone, 0) == sequences(together, place)
    assert len({sequences(together, place)[0] for place in (0, 2, 4)}) == 3
    assert sequences(run(model, keys, seeds_of(5, seed=1)), 0) != sequences(together, 0)


def test_several_samples_differ_and_include_the_single_one(scripted):
    model = scripted(9, vocabulary=12, spread=1.0)
    (single,) = sequences(run(model, [4], seeds_of(1)), 0)
    several = run(model, [4], seeds_of(1), samples=4)
    assert single in sequences(several, 0)
    assert len(set(sequences(several, 0))) == 4
    assert sequences(several, 0) == sequences(run(model, [4], seeds_of(1), samples=4), 0)


def test_finished_samples_come_first_then_the_better_ones(scripted):
    model = scripted(9, vocabulary=12, spread=1.0, end_bias=1.0)
    result = run(model, [1, 2, 3], seeds_of(3), samples=8)
    for finished, scores in zip(result.finished.numpy(), result.scores.numpy(), strict=True):
        keys = [(-int(end), -score) for end, score in zip(finished, scores, strict=True)]
        assert keys == sorted(keys)
    assert 0 < result.finished.numpy().sum() < 24
    for place, key in enumerate([1, 2, 3]):
        for tokens, score in zip(
            sequences(result, place), result.scores[place].numpy(), strict=True
        ):
            forced = model.forced(key, tokens) / ((5 + len(tokens)) / 6) ** 0.6
            assert score == pytest.approx(forced, rel=1e-4)


def test_sorting_by_hand():
    samples = Hypotheses(
        tokens=tf.constant([[[4], [5], [6], [7]], [[7], [6], [5], [4]]]),
        lengths=tf.ones([2, 4], tf.int32),
        scores=tf.constant([[-1.0, -3.0, -2.0, -4.0]] * 2),
        log_probabilities=tf.constant([[-10.0, -30.0, -20.0, -40.0]] * 2),
        finished=tf.constant([[False, True, True, False], [True, True, True, True]]),
    )
    ordered = sort_samples(samples)
    assert ordered.tokens.numpy().tolist() == [[[6], [5], [4], [7]], [[7], [5], [6], [4]]]
    assert ordered.log_probabilities.numpy().tolist() == [
        [-20.0, -30.0, -10.0, -40.0],
        [-10.0, -20.0, -30.0, -40.0],
    ]


def test_without_an_end_a_sample_stops_at_the_limit(scripted):
    model = scripted(1, vocabulary=8, end_bias=-np.inf)
    result = run(model, [5, 6], seeds_of(2), samples=2, limit=30)
    assert result.lengths.numpy().tolist() == [[30, 30], [30, 30]]
    assert not result.finished.numpy().any()


def test_gumbel_noise_is_independent_with_its_mean_and_variance():
    seeds = seeds_of(40)
    noise = [gumbel(seeds, tf.constant(position), 500).numpy() for position in (0, 1)]
    assert len(np.unique(np.concatenate(noise))) > 0.99 * 2 * 40 * 500  # of 2^23 values
    np.testing.assert_array_equal(gumbel(seeds[3:4], tf.constant(1), 500)[0], noise[1][3])
    assert np.mean(noise) == pytest.approx(0.5772, abs=0.03)  # Euler's constant
    assert np.var(noise) == pytest.approx(math.pi**2 / 6, abs=0.06)
    for one, other in itertools.combinations([noise[0][0], noise[0][1], noise[1][0]], 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature: expected a number above 0, got 0.0"),
        ({"temperature": math.nan}, "temperature: expected a number above 0, got nan"),
        ({"top_k": -1}, r"top_k: expected 0 \(all\) or more, got -1"),
        ({"top_p": 0.0}, "top_p: expected 0 < share <= 1, got 0.0"),
        ({"top_p": 1.5}, "top_p: expected 0 < share <= 1, got 1.5"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**options)


def test_bad_numbers_are_refused(scripted):
    with pytest.raises(ValueError, match="samples: expected 1 or more, got 0"):
        run(scripted(1, vocabulary=6), [1], seeds_of(1), samples=0)
