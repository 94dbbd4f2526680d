"""Parts of TensorFlow outside its public interface.

Checked with TensorFlow 2.20.0 and 2.21.0; `tests/compat/test_tensorflow.py` fails when one of
them changes.
"""

from __future__ import annotations

from tensorflow.core.framework import types_pb2 as types_pb2
from tensorflow.core.protobuf import saved_model_pb2 as saved_model_pb2
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
