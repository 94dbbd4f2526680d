"""The batch plan: every pair once, within the limit, a function of seed and epoch, few shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data import batch_plan as plan_module
from keras_transformer.data.batch_bounds import MAX_SHAPES
from keras_transformer.data.batch_plan import BatchPlan

LENGTHS = st.integers(1, 30)


def corpus_lengths(count: int = 3_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Lengths distributed like captions: most near 14, a tail to 60."""
    random = np.random.default_rng(seed)
    target = np.clip(random.lognormal(2.7, 0.35, count), 3, 60).astype(np.int32)
    source = np.clip(target * random.lognormal(0, 0.2, count), 3, 60).astype(np.int32)
    return source, target


def check_epoch(plan: BatchPlan, source: np.ndarray, target: np.ndarray, budget: int) -> None:
    batches = plan.epoch(0)
    assert len(batches) == plan.batches_per_epoch
    assert sorted(np.concatenate(batches)) == list(range(len(source)))
    for indices in batches:
        assert len(indices) >= 1
        for lengths in (source, target):
            assert lengths[indices].sum() <= budget or len(indices) == 1


@settings(max_examples=150, deadline=None)
@given(
    pairs=st.lists(st.tuples(LENGTHS, LENGTHS), min_size=1, max_size=60),
    budget=st.integers(1, 120),
    seed=st.integers(0, 3),
    fixed=st.booleans(),
)
def test_every_pair_once_within_the_token_limit(
    pairs: list[tuple[int, int]], budget: int, seed: int, fixed: bool
) -> None:
    source, target = np.array(pairs).T
    plan = BatchPlan(source, target, budget, seed, fixed)

    check_epoch(plan, source, target, budget)
    for epoch in range(1, 12):
        batches = plan.epoch(epoch)
        assert len(batches) == plan.batches_per_epoch
        assert sorted(np.concatenate(batches)) == list(range(len(pairs)))


@pytest.mark.parametrize("fixed", [False, True])
def test_an_epoch_is_a_function_of_seed_and_number(fixed: bool) -> None:
    def epochs(seed: int, *numbers: int) -> list[list[list[int]]]:
        plan = BatchPlan(*corpus_lengths(), 512, seed, fixed)
        return [[batch.tolist() for batch in plan.epoch(n)] for n in numbers]

    first, second, again = epochs(5, 3, 4, 3)
    assert first == again
    assert epochs(5, 4) == [second]  # without epoch 3 before it
    assert first != second
    assert epochs(6, 3) != [first]


@pytest.mark.parametrize("fixed", [False, True])
def test_a_prefetched_epoch_is_the_same(fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan() -> BatchPlan:
        return BatchPlan(*corpus_lengths(), 512, 5, fixed)

    expected = [[batch.tolist() for batch in plan().epoch(n)] for n in range(5)]
    monkeypatch.setattr(plan_module, "PREFETCH_PAIRS", 1)
    prefetching = plan()
    for n in (0, 1, 2, 4, 3, 4, 0):  # a later one, an earlier one, the next one
        assert [batch.tolist() for batch in prefetching.epoch(n)] == expected[n]


def test_the_next_epoch_is_prefetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "PREFETCH_PAIRS", 1)
    plan = BatchPlan(*corpus_lengths(), 512, seed=5)
    plan.epoch(7)
    assert plan._next is not None
    planned = plan._next.batches()

    monkeypatch.setattr(plan, "_plan", lambda n: [])
    assert plan.epoch(8) is planned


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_epoch_whose_prefetching_failed_is_planned_on_demand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = BatchPlan(*corpus_lengths(), 512, seed=5).epoch(8)
    monkeypatch.setattr(plan_module, "PREFETCH_PAIRS", 1)
    plan = BatchPlan(*corpus_lengths(), 512, seed=5)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "_random", None)  # calling it fails
        plan._next = plan_module._PlannedEpoch(plan, 8)
        assert plan._next.batches() is None

    assert [b.tolist() for b in plan.epoch(8)] == [b.tolist() for b in expected]


def test_batches_differ_in_the_next_epoch() -> None:
    plan = BatchPlan(*corpus_lengths(20_000), 1_024, seed=1)

    def mates(epoch: int) -> set[tuple[int, int]]:
        return {
            (int(a), int(b))
            for batch in plan.epoch(epoch)
            for a, b in zip(np.sort(batch), np.sort(batch)[1:], strict=False)
        }

    # Sorting by length alone with random ties keeps a third together here.
    assert len(mates(0) & mates(1)) < 0.2 * len(mates(0))


def test_short_and_long_batches_come_in_random_order() -> None:
    source, target = corpus_lengths()
    plan = BatchPlan(source, target, 512, seed=1)

    means = [target[indices].mean() for indices in plan.epoch(0)]

    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.35
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.35


def test_padding_is_small_and_batches_are_full() -> None:
    source, target = corpus_lengths(20_000)
    plan = BatchPlan(source, target, 4_096, seed=1)

    for epoch in range(3):
        batches = plan.epoch(epoch)
        padded = sum(len(b) * (int(source[b].max()) + int(target[b].max())) for b in batches)
        assert 1 - (source.sum() + target.sum()) / padded < 0.10
        assert max(source.sum(), target.sum()) / len(batches) > 0.90 * 4_096


def test_no_batch_is_tiny() -> None:
    # 27 pairs of 10 tokens, 5 to a batch: 6 batches of 4 or 5, not five of 5 and one of 2.
    lengths = np.full(27, 10)

    sizes = [len(batch) for batch in BatchPlan(lengths, lengths, 50, seed=0).epoch(0)]

    assert sorted(sizes) == [4, 4, 4, 5, 5, 5]


def test_a_pair_longer_than_the_limit_is_a_batch_of_its_own() -> None:
    source, target = np.array([5, 200, 5, 5]), np.array([5, 5, 5, 300])

    batches = BatchPlan(source, target, 50, seed=0).epoch(0)

    rows = [batch.tolist() for batch in batches]
    assert [1] in rows
    assert [3] in rows
    assert sorted(np.concatenate(batches)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("source", "target", "budget", "message"),
    [
        ([], [], 10, "at least one pair"),
        ([1, 2], [1], 10, r"shape \(2,\), got \(1,\)"),
        ([1, 0], [1, 1], 10, "1 or more"),
        ([1], [1], 0, "batch_tokens: expected 1 or more, got 0"),
    ],
)
def test_invalid_arguments_are_refused(
    source: list[int], target: list[int], budget: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        BatchPlan(np.array(source), np.array(target), budget, seed=0)


def test_fixed_shapes_by_hand() -> None:
    # Lengths 4 and 10 only: two shapes without a padded column. Budget 20: 5 rows of 4 and
    # 2 rows of 10; seven short pairs are two batches of 4 and 3.
    lengths = np.array([4, 10, 4, 4, 10, 4, 4, 10, 4, 4])
    plan = BatchPlan(lengths, lengths, 20, seed=0, fixed_shapes=True)

    assert plan.shapes == ((4, 4, 4), (2, 10, 10))
    assert plan.batches_per_epoch == 4
    found = sorted((len(b), plan.shape(b)) for b in plan.epoch(0))
    assert found == [
        (1, (2, 10, 10)),
        (2, (2, 10, 10)),
        (3, (4, 4, 4)),
        (4, (4, 4, 4)),
    ]


def test_fixed_shapes_are_few_and_within_the_limit() -> None:
    source, target = corpus_lengths(20_000)
    plan = BatchPlan(source, target, 4_096, seed=1, fixed_shapes=True)

    assert len(plan.shapes) <= MAX_SHAPES
    for rows, source_width, target_width in plan.shapes:
        assert rows * max(source_width, target_width) <= 4_096
    used = {plan.shape(indices) for n in range(3) for indices in plan.epoch(n)}
    assert used == set(plan.shapes)
    padded = sum(r * (s + t) for r, s, t in map(plan.shape, plan.epoch(0)))  # type: ignore[misc]
    assert 1 - (source.sum() + target.sum()) / padded < 0.20


@pytest.mark.parametrize("fixed", [False, True])
def test_sizes_are_those_of_the_padded_batches(fixed: bool) -> None:
    random = np.random.default_rng(3)
    source, target = random.integers(1, 30, (2, 200))
    plan = BatchPlan(source, target, 120, seed=5, fixed_shapes=fixed)
    expected = [
        plan.shape(indices) or (len(indices), source[indices].max(), target[indices].max())
        for indices in plan.epoch(1)
    ]
    assert plan.sizes(1).tolist() == [list(map(int, size)) for size in expected]
    positions = sum(rows * (s + t) for rows, s, t in expected)
    padding = 1 - (source.sum() + target.sum()) / positions
    assert plan.padding(plan.sizes(1)) == pytest.approx(padding)


def test_padding_of_two_pairs() -> None:
    """One batch of 2 x 3 sources and 2 x 4 targets, 14 positions: 4 + 5 of them are real."""
    plan = BatchPlan(np.array([1, 3]), np.array([4, 1]), 10, seed=1)
    assert plan.batches_per_epoch == 1
    assert plan.padding() == pytest.approx(5 / 14)
    assert (plan.pairs, plan.source_tokens, plan.target_tokens) == (2, 4, 5)
