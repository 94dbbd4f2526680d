"""The tf.data pipeline: every pair in the plan's order, seekable, few traces."""

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

from keras_transformer.data.batch_bounds import MAX_SHAPES
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batches import Shards, dataset
from keras_transformer.data.store import EncodedSentences, EncodedStore, write_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EncodedStore:
    return small_store(tmp_path_factory.mktemp("store"))


def small_store(directory: Path, count: int = 300) -> EncodedStore:
    """Write a store whose sentences all differ: the first id is 1,000 plus the index."""
    random = np.random.default_rng(0)
    target = np.clip(random.lognormal(2.7, 0.35, count), 3, 60).astype(np.int32)
    source = np.clip(target * random.lognormal(0, 0.2, count), 3, 60).astype(np.int32)
    pairs = [
        ([1_000 + i] + [9] * (s - 2), [1_000 + i] + [8] * (t - 2))
        for i, (s, t) in enumerate(zip(source, target, strict=True))
    ]
    sides = [EncodedSentences.from_lists(side) for side in zip(*pairs, strict=True)]
    write_store(directory / "train", [(sides[0], sides[1])])
    return EncodedStore(directory / "train")


def as_lists(stream: tf.data.Dataset, count: int | None = None) -> list[list[list[int]]]:
    elements = islice(stream.as_numpy_iterator(), count)
    return [[inputs["source"].tolist(), labels.tolist()] for inputs, labels in elements]


@pytest.mark.parametrize("fixed", [False, True])
def test_the_dataset_has_every_pair_in_the_plans_order(store: EncodedStore, fixed: bool) -> None:
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
def test_starting_at_a_step_equals_skipping_to_it(store: EncodedStore, fixed: bool) -> None:
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1, fixed)
    per_epoch = plan.batches_per_epoch
    never_stopped = as_lists(dataset(store, plan), 3 * per_epoch)

    for step in (1, per_epoch - 1, per_epoch, 2 * per_epoch + 3):
        resumed = as_lists(dataset(store, plan, start_step=step), 3 * per_epoch - step)
        assert resumed == never_stopped[step:]


def test_without_repeat_the_dataset_ends_with_the_epoch(store: EncodedStore) -> None:
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1)
    whole = as_lists(dataset(store, plan, repeat=False))

    assert len(whole) == plan.batches_per_epoch
    assert as_lists(dataset(store, plan, start_step=2, repeat=False)) == whole[2:]
    # Evaluation reads the same dataset at each checkpoint.
    stream = dataset(store, plan, repeat=False)
    assert as_lists(stream) == as_lists(stream) == whole


def test_a_negative_step_is_refused(store: EncodedStore) -> None:
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1)

    with pytest.raises(ValueError, match="start_step: expected 0 or more, got -1"):
        dataset(store, plan, start_step=-1)


def test_one_trace_for_all_shapes(store: EncodedStore) -> None:
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


def test_a_trace_for_each_fixed_shape(store: EncodedStore) -> None:
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
        from keras_transformer.data.batch_plan import BatchPlan
        from keras_transformer.data.batches import dataset
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


def test_shards_of_all_workers_are_the_batch(store: EncodedStore) -> None:
    plan = BatchPlan(store.source_lengths, store.target_lengths, 64, 1)
    whole = as_lists(dataset(store, plan, repeat=False))
    # Three devices: one in the first worker, two in the second.
    first = as_lists(dataset(store, plan, repeat=False, shards=Shards(3, 0, 1)))
    second = as_lists(dataset(store, plan, repeat=False, shards=Shards(3, 1, 2)))

    def names(element: list[list[list[int]]]) -> list[int]:
        return [row[0] for row in element[1] if row[0]]  # a shard without a pair is padding

    for step, batch in enumerate(whole):
        shards = [first[step], second[2 * step], second[2 * step + 1]]
        assert [names(shard) for shard in shards] == [names(batch)[k::3] for k in range(3)]
    assert any(not names(shard) for shard in second)


def test_shards_of_fixed_shapes_are_equal(store: EncodedStore) -> None:
    plan = BatchPlan(store.source_lengths, store.target_lengths, 256, 1, fixed_shapes=True)
    shards = Shards(3, 0, 3)
    found = list(dataset(store, plan, repeat=False, shards=shards))
    for step, (inputs, labels) in enumerate(dataset(store, plan, repeat=False)):
        own = found[3 * step : 3 * step + 3]
        rows = -(-labels.shape[0] // 3)
        assert {tuple(shard.shape) for _, shard in own} == {(rows, labels.shape[1])}
        assert {tuple(x["source"].shape) for x, _ in own} == {(rows, inputs["source"].shape[1])}
        real = [row for _, shard in own for row in shard.numpy().tolist() if row[0]]
        assert sorted(real) == sorted(row for row in labels.numpy().tolist() if row[0])


def test_a_repeated_dataset_is_infinite(store: EncodedStore) -> None:
    plan = BatchPlan(store.source_lengths, store.target_lengths, 512, 1)
    for shards in (Shards(), Shards(2, 0, 2)):
        endless = dataset(store, plan, shards=shards)
        assert int(endless.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert int(dataset(store, plan, repeat=False).cardinality()) < 0  # not known: none is promised
