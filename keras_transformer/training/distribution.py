"""Devices and workers of a training run.

A worker is a process with devices of its own, on this machine or another. ``TF_CONFIG`` or
Slurm's variables describe the workers. All workers run the same program and make the same
decisions. The first one is the chief: only it writes the run folder and scores the dev set.
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

from keras_transformer.compat.tensorflow import slurm_tasks
from keras_transformer.data.batches import Shards
from keras_transformer.devices import INSTALL, describe_devices, gpu_details, unused_gpu_hint
from keras_transformer.errors import UserError

WORKER_LOST = 75
"""Exit status of a worker that has lost another one: EX_TEMPFAIL of sysexits.h, to try again."""
SLURM_PORT = 8888
"""Port of a node's first worker in a Slurm job; the second one has the next port."""

MAX_CPU_DEVICES = 64
"""Most devices that the CPU is divided into; each has a copy of the model."""

# Errors that are never the effect of a lost worker.
_LOCAL_ERRORS = (
    tf.errors.ResourceExhaustedError,
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
)


class DistributionError(UserError):
    """Devices or workers that are unavailable or do not fit together."""


class Distribution:
    """Distribution strategy of a run, and communication between its workers.

    Args:
        devices: "auto" (all GPUs, or the CPU if there is none), "cpu", "gpu", or with a
            number, "cpu:2" (the CPU as two devices) or "gpu:2" (the first two GPUs).

    Attributes:
        strategy: The strategy; the model is built in its scope.
        workers: Number of processes that train together.
        worker: Number of this process; 0 is the chief.

    Raises:
        DistributionError: Devices or workers are not available.
    """

    strategy: tf.distribute.Strategy

    def __init__(self, devices: str = "auto") -> None:
        self.workers, self.worker = 1, 0
        self._sum_graph = tf.function(self._sum_over_workers, autograph=False)
        resolver = _cluster()
        _configure_devices(devices, single_worker=resolver is None)
        if resolver is None:
            found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
            self.strategy = tf.distribute.MirroredStrategy([device.name for device in found])
        else:
            self.strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
            jobs = resolver.cluster_spec().as_dict()
            self.workers = sum(len(addresses) for addresses in jobs.values())
            after_chief = resolver.task_type == "worker" and "chief" in jobs
            self.worker = resolver.task_id + after_chief

    @property
    def chief(self) -> bool:
        """Return True for the worker that writes the run folder."""
        return self.worker == 0

    @property
    def devices(self) -> int:
        """Number of devices of all workers together."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def description(self) -> str:
        """Number and kind of the devices of all workers, such as "8 GPUs, NVIDIA H100"."""
        return describe_devices(self.devices, gpu_details())

    @property
    def shards(self) -> Shards:
        """The shards of each batch that belong to this worker's devices."""
        per_worker = self.devices // self.workers
        return Shards(self.devices, self.worker * per_worker, per_worker)

    def broadcast_from_chief(self, values: Sequence[float]) -> list[float]:
        """Broadcast the chief's values; every worker calls this and waits for the others.

        Args:
            values: The values; the other workers pass any values, as many as the chief.

        Returns:
            The chief's values, on every worker.
        """
        if self.workers == 1:
            return list(values)
        own = tf.constant(np.array(values if self.chief else np.zeros(len(values)), np.float64))
        return [float(value) for value in self.all_reduce_sum(own)]

    def wait(self) -> None:
        """Wait until every worker has called this."""
        self.broadcast_from_chief([0.0])

    @contextlib.contextmanager
    def exit_on_lost_worker(self) -> Iterator[None]:
        """Exit with one line on standard error if another worker is lost in the block.

        Raises:
            SystemExit: Another worker is lost; the status is `WORKER_LOST`.
        """
        try:
            yield
        except _LOCAL_ERRORS:
            raise
        except tf.errors.OpError as error:
            if self.workers == 1:
                raise
            print(
                f"worker {self.worker}: another worker is gone ({type(error).__name__}); "
                "restart all workers with --resume",
                file=sys.stderr,
                flush=True,
            )
            raise SystemExit(WORKER_LOST) from error

    def all_reduce_sum(self, own: tf.Tensor) -> np.ndarray:
        """Return the sum of ``own`` over the workers; every worker calls this.

        Args:
            own: A float tensor of the same shape on every worker.
        """
        return np.asarray(self._sum_graph(own))

    def any_worker(self, flags: list[bool]) -> list[bool]:
        """Return which flags are set on at least one worker; every worker calls this."""
        if self.workers == 1:
            return flags
        return (self.all_reduce_sum(tf.constant(flags, tf.float64)) > 0).tolist()

    def _sum_over_workers(self, own: tf.Tensor) -> Any:
        def replica_sum() -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            # Only the first device of each worker contributes.
            first = replica.replica_id_in_sync_group % self.shards.count == 0
            counted = tf.where(first, own, tf.zeros_like(own))
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, counted)

        return self.strategy.experimental_local_results(self.strategy.run(replica_sum))[0]


def _cluster() -> Any:
    """Return the resolver of the cluster in the environment, or None for a single process.

    Raises:
        DistributionError: The description of the cluster is invalid.
    """
    if os.environ.get("TF_CONFIG"):
        _check_tf_config(os.environ["TF_CONFIG"])
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": slurm_addresses()}),
            task_type="worker",
            task_id=int(os.environ["SLURM_PROCID"]),
            rpc_layer="grpc",
        )
    else:
        return None
    jobs = resolver.cluster_spec().as_dict()
    return resolver if sum(len(addresses) for addresses in jobs.values()) > 1 else None


def slurm_addresses() -> list[str]:
    """Return HOST:PORT of each task of this Slurm step, in the order of the tasks.

    Raises:
        DistributionError: Slurm's variables are missing or invalid.
    """
    hosts, counts = (
        os.environ.get(f"SLURM_STEP_{name}", "") for name in ("NODELIST", "TASKS_PER_NODE")
    )
    try:
        tasks = slurm_tasks(hosts, counts)
    except ValueError as error:
        raise DistributionError(
            "SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE: expected hosts and their tasks, as "
            f"node[1-2] and 4(x2), got {hosts!r} and {counts!r}: {error}"
        ) from None
    return [f"{host}:{SLURM_PORT + i}" for host, count in tasks for i in range(count)]


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


def _configure_devices(spec: str, single_worker: bool) -> None:
    """Configure the devices of ``spec``; TensorFlow must not have initialised its devices."""
    match = re.fullmatch(r"(auto|cpu|gpu)(?::([1-9]\d{0,5}))?", spec)
    if not match or (match[1] == "auto" and match[2]):
        raise DistributionError(f"--devices: expected auto, cpu, gpu, cpu:N or gpu:N, got {spec}")
    kind, count = match[1], int(match[2] or 0)
    if kind == "auto":
        return
    if kind == "cpu" and count > MAX_CPU_DEVICES:
        raise DistributionError(f"--devices: expected at most cpu:{MAX_CPU_DEVICES}, got {spec}")
    gpus = tf.config.list_physical_devices("GPU")
    if kind == "gpu" and (not gpus or count > len(gpus)):
        hint = unused_gpu_hint(os.environ.get("CUDA_VISIBLE_DEVICES")) if not gpus else ""
        raise DistributionError(
            f"--devices: expected at most the {len(gpus)} GPUs that TensorFlow finds, got {spec}. "
            f"{hint or INSTALL}"
        )
    if kind == "cpu" and count > 1 and not single_worker:
        raise DistributionError(
            "--devices: expected cpu with several workers, each of which uses its CPU as one "
            f"device, got {spec}"
        )
    if kind == "gpu":
        tf.config.set_visible_devices(gpus[: count or None], "GPU")
        return
    tf.config.set_visible_devices([], "GPU")
    if count:
        device = tf.config.list_physical_devices("CPU")[0]
        configurations = [tf.config.LogicalDeviceConfiguration()] * count
        with contextlib.suppress(RuntimeError):  # TensorFlow has started: checked below
            tf.config.set_logical_device_configuration(device, configurations)
        found = len(tf.config.list_logical_devices("CPU"))
        if found != count:
            raise DistributionError(
                f"--devices {spec}: TensorFlow has started with {found} CPU devices already"
            )
