"""The batch plan and its tf.data stream: nothing lost, in budget, seekable, few shapes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data import batches as batches_module
from keras_transformer.data.batches import MAX_SHAPES, BatchPlan, _ranked, dataset
from keras_transformer.data.store import EncodedStore, write_store

LENGTHS = st.integers(1, 30)


def corpus_lengths(count: int = 3_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Lengths distributed like captions: most near 14, a tail to 60."""
    random = np.random.default_rng(seed)
    target = np.clip(random.lognormal(2.7, 0.35, count), 3, 60).astype(np.int32)
    source = np.clip(target * random.lognormal(0, 0.2, count), 3, 60).astype(np.int32)
    return source, target


def small_store(directory: Path, count: int = 300) -> EncodedStore:
    """A store whose sentences all differ: the first id names the pair."""
    source, target = corpus_lengths(count)
    pairs = [
        ([1_000 + i] + [9] * (s - 2), [1_000 + i] + [8] * (t - 2))
        for i, (s, t) in enumerate(zip(source, target, strict=True))
    ]
    write_store(directory / "train", pairs)
    return EncodedStore(directory / "train")


def as_lists(stream: tf.data.Dataset, count: int | None = None) -> list[list[list[int]]]:
    elements = islice(stream.as_numpy_iterator(), count)
    return [[inputs["source"].tolist(), labels.tolist()] for inputs, labels in elements]


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
def test_every_pair_once_and_in_budget(
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
def test_an_epoch_planned_ahead_is_the_same(fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan() -> BatchPlan:
        return BatchPlan(*corpus_lengths(), 512, 5, fixed)

    alone = [[batch.tolist() for batch in plan().epoch(n)] for n in range(5)]
    monkeypatch.setattr(batches_module, "AHEAD", 1)
    ahead = plan()
    for n in (0, 1, 2, 4, 3, 4, 0):  # a later one, an earlier one, the next one
        assert [batch.tolist() for batch in ahead.epoch(n)] == alone[n]


def test_the_next_epoch_is_planned_in_the_meantime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "AHEAD", 1)
    plan = BatchPlan(*corpus_lengths(), 512, seed=5)
    plan.epoch(7)
    assert plan._next is not None
    made = plan._next.batches()

    monkeypatch.setattr(plan, "_plan", lambda n: [])
    assert plan.epoch(8) is made


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_epoch_that_could_not_be_planned_ahead_is_planned_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = BatchPlan(*corpus_lengths(), 512, seed=5).epoch(8)
    monkeypatch.setattr(batches_module, "AHEAD", 1)
    plan = BatchPlan(*corpus_lengths(), 512, seed=5)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "_random", None)  # calling it fails
        plan._next = batches_module._Planned(plan, 8)
        assert plan._next.batches() is None

    assert [b.tolist() for b in plan.epoch(8)] == [b.tolist() for b in expected]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(-5, 5), st.integers(-4, 4)), min_size=1, max_size=50),
    spread=st.sampled_from([1, 1_000, 2**28]),
)
def test_ranking_is_a_stable_sort(rows: list[tuple[int, int]], spread: int) -> None:
    group, source = (np.array(rows) * spread).T.astype(np.int32)

    assert _ranked(group, source).tolist() == np.lexsort((source, group)).tolist()


def test_other_pairs_meet_in_the_next_epoch() -> None:
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


def test_a_pair_longer_than_the_budget_is_alone() -> None:
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
def test_bad_arguments(source: list[int], target: list[int], budget: int, message: str) -> None:
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


def test_fixed_shapes_are_few_and_within_the_budget() -> None:
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
def test_the_stream_holds_every_pair_in_the_plans_order(tmp_path: Path, fixed: bool) -> None:
    store = small_store(tmp_path)
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1, fixed)

    names = []
    for inputs, labels in dataset(store, plan, repeat=False).as_numpy_iterator():
        real = labels[:, 0] > 0
        assert (inputs["target"][real, 0] == 2).all()
        assert not inputs["target"][~real].any()
        assert not inputs["source"][~real].any()
        assert not labels[~real].any()
        assert inputs["source"][:, 0].tolist() == labels[:, 0].tolist()
        names.append((labels[real, 0] - 1_000).tolist())

    assert names == [batch.tolist() for batch in plan.epoch(0)]


@pytest.mark.parametrize("fixed", [False, True])
def test_starting_at_a_step_equals_skipping_to_it(tmp_path: Path, fixed: bool) -> None:
    store = small_store(tmp_path)
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1, fixed)
    per_epoch = plan.batches_per_epoch
    never_stopped = as_lists(dataset(store, plan), 3 * per_epoch)

    for step in (1, per_epoch - 1, per_epoch, 2 * per_epoch + 3):
        resumed = as_lists(dataset(store, plan, start_step=step), 3 * per_epoch - step)
        assert resumed == never_stopped[step:]


def test_without_repeat_the_stream_ends_with_the_epoch(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1)
    whole = as_lists(dataset(store, plan, repeat=False))

    assert len(whole) == plan.batches_per_epoch
    assert as_lists(dataset(store, plan, start_step=2, repeat=False)) == whole[2:]
    # Read twice, the same object gives the same: evaluation uses it at each checkpoint.
    stream = dataset(store, plan, repeat=False)
    assert as_lists(stream) == as_lists(stream) == whole


def test_a_negative_step_is_refused(tmp_path: Path) -> None:
    store = small_store(tmp_path, 5)
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1)

    with pytest.raises(ValueError, match="start_step: expected 0 or more, got -1"):
        dataset(store, plan, start_step=-1)


def test_one_trace_for_all_shapes(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    plan = BatchPlan(store.source_lengths, store.target_lengths, 256, 1)
    stream = dataset(store, plan, repeat=False)
    ids = tf.TensorSpec((None, None), tf.int32)
    assert stream.element_spec == ({"source": ids, "target": ids}, ids)
    traces = 0
    shapes = set()

    @tf.function(input_signature=stream.element_spec)
    def tokens(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        nonlocal traces
        traces += 1
        return tf.math.count_nonzero(inputs["source"]) + tf.math.count_nonzero(labels)

    total = 0
    for inputs, labels in stream:
        shapes.add((*inputs["source"].shape, labels.shape[1]))
        total += int(tokens(inputs, labels))

    assert traces == 1
    assert len(shapes) > 5
    assert total == store.source_lengths.sum() + store.target_lengths.sum()


def test_a_trace_for_each_fixed_shape(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    plan = BatchPlan(store.source_lengths, store.target_lengths, 256, 1, fixed_shapes=True)
    traces = 0

    @tf.function
    def count(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        nonlocal traces
        traces += 1
        return tf.math.count_nonzero(labels)

    for inputs, labels in dataset(store, plan).take(3 * plan.batches_per_epoch):
        count(inputs, labels)

    assert traces == len(plan.shapes) <= MAX_SHAPES


@pytest.mark.slow
def test_two_replicas_share_batches_of_any_size(tmp_path: Path) -> None:
    small_store(tmp_path, 61)
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        import tensorflow as tf
        from keras_transformer.data.batches import BatchPlan, dataset
        from keras_transformer.data.store import EncodedStore

        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        store = EncodedStore(Path(sys.argv[1]))
        plan = BatchPlan(store.source_lengths, store.target_lengths, 150, 1)
        shared = strategy.experimental_distribute_dataset(dataset(store, plan, repeat=False))
        steps = iter(shared)
        for expected in plan.epoch(0):
            inputs, labels = next(steps)
            parts = [part.numpy() for part in strategy.experimental_local_results(labels)]
            names = [int(name) - 1000 for part in parts for name in part[:, 0]]
            assert names == expected.tolist(), (names, expected)
            assert abs(len(parts[0]) - len(parts[1])) <= 1, [len(part) for part in parts]
            print(len(parts[0]), len(parts[1]))
        assert next(steps, None) is None
        """
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "train")],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        cwd=Path(__file__).parents[2],
    )

    assert result.returncode == 0, result.stderr[-2_000:]
    sizes = [tuple(map(int, line.split())) for line in result.stdout.splitlines()]
    assert any((first + second) % 2 for first, second in sizes)  # odd batches were among them


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
