"""Parts of TensorFlow outside its public interface.

Checked with TensorFlow 2.20.0 and 2.21.0; `tests/compat/test_tensorflow.py` fails when one of
them changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2 as types_pb2
from tensorflow.core.protobuf import saved_model_pb2 as saved_model_pb2
from tensorflow.python.data.ops import multi_device_iterator_ops
from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver

# `types_pb2` and `saved_model_pb2` are the protocol buffers of a SavedModel's file. The public
# interface loads and saves whole SavedModels, but cannot read or edit their graphs.


def slurm_tasks(hosts: str, tasks_per_node: str) -> list[tuple[str, int]]:
    """Return each host of a Slurm step with its number of tasks, in Slurm's order.

    The public `SlurmClusterResolver` counts GPUs with nvidia-smi, and fails on nodes without
    GPUs. Its two parsers work everywhere.

    Args:
        hosts: Slurm's notation, such as ``node[1-2],other``.
        tasks_per_node: Slurm's notation, such as ``4(x2),1``.

    Raises:
        ValueError: The notation is wrong, or the lists differ in length.
    """
    names = slurm_cluster_resolver.expand_hostlist(hosts)
    counts = slurm_cluster_resolver.expand_tasks_per_node(tasks_per_node)
    return list(zip(names, counts, strict=True))


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a dataset without the thread that tunes the sizes of its buffers.

    When an iterator is freed, TensorFlow wakes this thread before it marks it as cancelled. A
    thread that looks in between sleeps on, for up to a minute, and the iterator's destructor
    waits for it: Python's garbage collector or the end of the process stands still.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


@contextlib.contextmanager
def devices_without_autotune() -> Iterator[None]:
    """Apply `without_autotune` to the dataset of each device of the iterators made inside.

    An iterator of a distributed dataset has one more dataset per device, for which there are no
    options in the public interface.
    """
    build = multi_device_iterator_ops._create_device_dataset

    def build_without(*args: Any) -> tf.data.Dataset:
        return without_autotune(build(*args))

    multi_device_iterator_ops._create_device_dataset = build_without
    try:
        yield
    finally:
        multi_device_iterator_ops._create_device_dataset = build


class _NamedTable(tf.lookup.KeyValueTensorInitializer):
    """Entries of a table, with the name of its resource."""

    def __init__(self, keys: tf.Tensor, values: tf.Tensor, name: str) -> None:
        super().__init__(keys, values)
        self._resource_name = name

    @property
    def _shared_name(self) -> str:
        return self._resource_name


def static_table(
    keys: tf.Tensor, values: tf.Tensor, default: int, name: str
) -> tf.lookup.StaticHashTable:
    """Return a static hash table whose resource has a name of its own choice.

    TensorFlow's own name is a random one, so that two exports of a model would differ.

    Args:
        keys: (N,) keys.
        values: (N,) values.
        default: The value of all other keys.
        name: Name of the resource: tables with one name in a process must have equal contents.
    """
    return tf.lookup.StaticHashTable(_NamedTable(keys, values, name), default)
