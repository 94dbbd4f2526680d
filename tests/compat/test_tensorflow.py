"""Private parts of TensorFlow: each one exists and does what the package uses it for."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.compat.tensorflow import saved_model_pb2, slurm_tasks, types_pb2


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
