"""Where training runs: the devices of one machine, or several workers.

A worker is a process with devices of its own, on this machine or another. Which workers there
are, TensorFlow's ``TF_CONFIG`` says, or Slurm. All of them run the same program and take the
same decisions; the chief, the first one, alone writes the run folder and looks at the dev set.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.cluster_resolver.slurm_cluster_resolver import (
    expand_hostlist,
    expand_tasks_per_node,
)

from keras_transformer.data.batches import Shards
from keras_transformer.errors import UserError

WORKER_LOST = 75
"""The exit status of a worker that another one has left: try again, as sendmail has it."""
SLURM_PORT = 8888
"""Where the workers of a Slurm job meet; the second one of a node has the next port."""


# What no other worker can be the cause of.
_OWN_FAULTS = (
    tf.errors.ResourceExhaustedError,
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
)


class DistributionError(UserError):
    """Devices or workers that are not there."""


class Distribution:
    """The strategy of a training, and what its workers say to one another.

    Args:
        devices: "auto" (all GPUs, or the CPU where there is none), "cpu", "gpu", or with a
            number, "cpu:2" (the CPU as two devices) or "gpu:2" (the first two).

    Attributes:
        strategy: What the model is built under.
        workers: How many processes train together.
        worker: The number of this one; 0 is the chief.

    Raises:
        DistributionError: Devices or workers that cannot be had.
    """

    strategy: tf.distribute.Strategy

    def __init__(self, devices: str = "auto") -> None:
        self.workers, self.worker = 1, 0
        self._add = tf.function(self._added_up, autograph=False)
        resolver = _cluster()
        _set_up(devices, alone=resolver is None)
        if resolver is None:
            found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
            self.strategy = tf.distribute.MirroredStrategy([device.name for device in found])
        else:
            self.strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
            jobs = resolver.cluster_spec().as_dict()
            self.workers = sum(len(places) for places in jobs.values())
            after_chief = resolver.task_type == "worker" and "chief" in jobs
            self.worker = resolver.task_id + after_chief

    @property
    def chief(self) -> bool:
        """Whether this worker is the one that writes."""
        return self.worker == 0

    @property
    def devices(self) -> int:
        """Devices of all workers."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def shards(self) -> Shards:
        """Shards of each batch for the devices of this worker."""
        here = self.devices // self.workers
        return Shards(self.devices, self.worker * here, here)

    def broadcast_from_chief(self, values: Sequence[float]) -> list[float]:
        """Numbers of the chief, told to all: every worker calls it, and waits for the others.

        Args:
            values: What the chief tells; of the others only the length counts.
        """
        if self.workers == 1:
            return list(values)
        own = tf.constant(np.array(values if self.chief else np.zeros(len(values)), np.float64))
        return [float(value) for value in self.all_reduce_sum(own)]

    def wait(self) -> None:
        """Go on once every worker is here."""
        self.broadcast_from_chief([0.0])

    @contextlib.contextmanager
    def exit_on_lost_worker(self) -> Iterator[None]:
        """Within, the loss of another worker ends this one in a line.

        Raises:
            SystemExit: With `WORKER_LOST`.
        """
        try:
            yield
        except _OWN_FAULTS:
            raise
        except tf.errors.OpError as error:
            if self.workers == 1:
                raise
            print(
                f"worker {self.worker}: another worker is gone ({type(error).__name__}); all "
                "must begin again, with --resume",
                file=sys.stderr,
                flush=True,
            )
            raise SystemExit(WORKER_LOST) from error

    def all_reduce_sum(self, own: tf.Tensor) -> np.ndarray:
        """A tensor of each worker, added up over the workers."""
        return np.asarray(self._add(own))

    def _added_up(self, own: tf.Tensor) -> Any:
        def on_each_device() -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            # A worker with several devices counts once.
            first = replica.replica_id_in_sync_group % self.shards.count == 0
            mine = tf.where(first, own, tf.zeros_like(own))
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, mine)

        return self.strategy.experimental_local_results(self.strategy.run(on_each_device))[0]


def _cluster() -> Any:
    """A resolver of the cluster that the environment describes; None where it is one process.

    Raises:
        DistributionError: The description makes no sense.
    """
    if os.environ.get("TF_CONFIG"):
        _check_tf_config(os.environ["TF_CONFIG"])
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": slurm_places()}),
            task_type="worker",
            task_id=int(os.environ["SLURM_PROCID"]),
            rpc_layer="grpc",
        )
    else:
        return None
    jobs = resolver.cluster_spec().as_dict()
    return resolver if sum(len(places) for places in jobs.values()) > 1 else None


def slurm_places() -> list[str]:
    """Host and port of each task of a Slurm step, in the order of their numbers.

    TensorFlow's own resolver for Slurm wants to know GPUs, and fails where there are none.

    Raises:
        DistributionError: Slurm's variables do not say.
    """
    hosts, counts = (
        os.environ.get(f"SLURM_STEP_{name}", "") for name in ("NODELIST", "TASKS_PER_NODE")
    )
    try:
        tasks = zip(expand_hostlist(hosts), expand_tasks_per_node(counts), strict=True)
        return [f"{host}:{SLURM_PORT + i}" for host, count in tasks for i in range(count)]
    except (ValueError, TypeError) as error:
        raise DistributionError(
            "SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE: expected hosts and their tasks, as "
            f"node[1-2] and 4(x2), got {hosts!r} and {counts!r}: {error}"
        ) from None


def _check_tf_config(text: str) -> None:
    try:
        values = json.loads(text)
        jobs, task = values["cluster"], values["task"]
        sizes = {kind: len(jobs[kind]) for kind in jobs}
        fits = 0 <= int(task["index"]) < sizes[task["type"]]
    except (ValueError, KeyError, TypeError):
        fits, sizes = False, {}
    if not fits or not set(sizes) <= {"chief", "worker"} or sizes.get("chief", 1) != 1:
        raise DistributionError(
            'TF_CONFIG: expected {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": '
            f'"worker", "index": N}}}} with N below the number of workers, got {text}'
        )


def _set_up(spec: str, alone: bool) -> None:
    """Make the devices that ``spec`` asks for; TensorFlow must not have started yet."""
    match = re.fullmatch(r"(auto|cpu|gpu)(?::([1-9]\d*))?", spec)
    if not match or (match[1] == "auto" and match[2]):
        raise DistributionError(f"--devices: expected auto, cpu, gpu, cpu:N or gpu:N, got {spec}")
    kind, count = match[1], int(match[2] or 0)
    if kind == "auto":
        return
    gpus = tf.config.list_physical_devices("GPU")
    if kind == "gpu" and (not gpus or count > len(gpus)):
        raise DistributionError(f"--devices: expected at most the {len(gpus)} GPUs, got {spec}")
    if kind == "cpu" and count > 1 and not alone:
        raise DistributionError(
            f"--devices: expected cpu where there are several workers, each of which takes its "
            f"CPU as one device, got {spec}"
        )
    if kind == "gpu":
        tf.config.set_visible_devices(gpus[: count or None], "GPU")
        return
    tf.config.set_visible_devices([], "GPU")
    if count:
        device = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * count
        with contextlib.suppress(RuntimeError):  # has started: what there is, is checked below
            tf.config.set_logical_device_configuration(device, parts)
        found = len(tf.config.list_logical_devices("CPU"))
        if found != count:
            raise DistributionError(
                f"--devices {spec}: TensorFlow has started with {found} CPU devices already"
            )
