"""Private parts of TensorFlow: each one exists and does what the package uses it for."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest
import tensorflow as tf

from keras_transformer.compat.tensorflow import (
    devices_without_autotune,
    saved_model_pb2,
    slurm_tasks,
    static_table,
    types_pb2,
    without_autotune,
)


@pytest.mark.parametrize(
    ("hosts", "tasks", "expected"),
    [
        ("a", "4", [("a", 4)]),
        ("a[1-2],b", "2(x2),1", [("a1", 2), ("a2", 2), ("b", 1)]),
        ("n[08-10]", "1(x3)", [("n08", 1), ("n09", 1), ("n10", 1)]),
    ],
)
def test_slurm_notation(hosts: str, tasks: str, expected: list[tuple[str, int]]) -> None:
    assert slurm_tasks(hosts, tasks) == expected


@pytest.mark.parametrize(
    ("hosts", "tasks"), [("a,b", "1"), ("a", ""), ("", "1"), ("a", "x"), ("a[", "1"), ("a[1-", "1")]
)
def test_wrong_slurm_notation(hosts: str, tasks: str) -> None:
    with pytest.raises(ValueError, match="."):
        slurm_tasks(hosts, tasks)


def test_the_file_of_a_saved_model_can_be_read(tmp_path: Path) -> None:
    module = tf.Module()
    module.double = tf.function(lambda x: 2 * x, input_signature=[tf.TensorSpec((), tf.float32)])
    tf.saved_model.save(module, str(tmp_path), signatures={"double": module.double})
    content = (tmp_path / "saved_model.pb").read_bytes()
    [graph] = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    assert list(graph.meta_info_def.tags) == ["serve"]
    [output] = graph.signature_def["double"].outputs.values()
    assert output.dtype == types_pb2.DT_FLOAT


def test_iterators_without_autotune_have_no_thread_that_tunes() -> None:
    """The dataset of each device is one that the public options do not reach."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    source = without_autotune(tf.data.Dataset.range(3).prefetch(2))
    with devices_without_autotune():
        iterator = iter(strategy.distribute_datasets_from_function(lambda _: source))
        [worker] = iterator._iterators
        devices = worker._iterator._device_iterators
    tuned = [device._dataset.options().autotune.enabled for device in devices]
    assert tuned == [False]
    assert source.options().autotune.enabled is False
    assert [int(element) for element in iterator] == [0, 1, 2]
    # Outside, datasets of others are left as they are.
    [worker] = iter(strategy.distribute_datasets_from_function(lambda _: source))._iterators
    [device] = worker._iterator._device_iterators
    assert device._dataset.options().autotune.enabled is not False


def test_the_resource_of_a_table_has_the_given_name() -> None:
    table = static_table(tf.constant(["a"]), tf.constant([7]), 1, "words_of_a_test")
    assert table.lookup(tf.constant(["a", "b"])).numpy().tolist() == [7, 1]

    with tf.Graph().as_default() as graph:
        static_table(tf.constant(["a"]), tf.constant([7]), 1, "words_of_a_test")
    nodes = graph.as_graph_def().node
    names = [node.attr["shared_name"].s for node in nodes if node.op == "HashTableV2"]
    assert names == [b"words_of_a_test"]
    keras.utils.set_random_seed(1)  # it removes the resources that belong to an operation
    assert table.lookup(tf.constant(["a", "b"])).numpy().tolist() == [7, 1]
