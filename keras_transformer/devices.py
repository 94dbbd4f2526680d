"""GPUs of this machine: which are used, what they can do, why one is not used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

_DEVICE_FILES = Path("/dev")
_CPU_INFO = Path("/proc/cpuinfo")
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}

Precision = Literal["float32", "bfloat16", "float16"]

INSTALL = (
    'pip install "keras-translate[gpu]" brings the CUDA libraries (in a checkout: '
    'pip install ".[gpu]", or make gpu); Colab: Runtime > Change runtime type > GPU'
)
"""The way to GPUs that TensorFlow can use, for messages."""


def has_gpu() -> bool:
    """Return whether TensorFlow computes on a GPU: one is visible to it.

    Graphs are built for the device, where the fastest operations differ.
    """
    import tensorflow as tf

    return bool(tf.config.get_visible_devices("GPU"))


def gpu_details() -> list[Mapping[str, Any]]:
    """Return TensorFlow's details of each visible GPU: ``device_name``, ``compute_capability``."""
    import tensorflow as tf

    return [
        tf.config.experimental.get_device_details(device)
        for device in tf.config.get_visible_devices("GPU")
    ]


def describe_devices(count: int, gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return the number and kind of the devices, such as "8 GPUs, NVIDIA H100".

    Args:
        count: Number of devices of all workers.
        gpus: From `gpu_details`; empty if the devices are CPUs.
    """
    kind = "GPU" if gpus else "CPU"
    names = sorted({str(gpu["device_name"]) for gpu in gpus if gpu.get("device_name")})
    plural = "s" if count > 1 else ""
    return f"{count} {kind}{plural}{', ' if names else ''}{' and '.join(names)}"


def device_files(folder: Path = _DEVICE_FILES) -> list[str]:
    """Return the names of NVIDIA's device files, such as "nvidia0": one for each GPU.

    Args:
        folder: Where the operating system has its device files.
    """
    try:
        names = [path.name for path in folder.glob("nvidia[0-9]*")]
    except OSError:
        return []
    return sorted((name for name in names if name[6:].isdecimal()), key=lambda name: int(name[6:]))


def unused_gpu_hint(hidden: str | None, folder: Path = _DEVICE_FILES) -> str:
    """Return a line about GPUs of the machine that TensorFlow cannot use; "" if there are none.

    Call it where TensorFlow has found no GPU.

    Args:
        hidden: The variable CUDA_VISIBLE_DEVICES, None if it is not set.
        folder: As for `device_files`.
    """
    files = device_files(folder)
    if not files or hidden in ("", "-1"):  # the user hides them
        return ""
    number = "a GPU" if len(files) == 1 else f"{len(files)} GPUs"
    return (
        f"this machine has {number} ({folder / files[0]}), which TensorFlow cannot use. {INSTALL}. "
        "TF_CPP_MIN_LOG_LEVEL=0 shows what is missing"
    )


def unused_gpu() -> str:
    """Return `unused_gpu_hint` if TensorFlow has found no GPU, else ""."""
    return "" if has_gpu() else unused_gpu_hint(os.environ.get("CUDA_VISIBLE_DEVICES"))


def best_precision(
    gpus: Sequence[Mapping[str, Any]], cpuinfo: Path = _CPU_INFO
) -> tuple[Precision, str]:
    """Return the fastest precision of ``train.precision`` on some devices, and why.

    GPUs from compute capability 8.0 (Ampere) on multiply bfloat16 at full speed, 7.0 and 7.5
    (V100, T4) only float16. On a CPU, bfloat16 is faster than float32 where it has instructions
    for it.

    Args:
        gpus: From `gpu_details`; all of them take part. Empty: the CPU.
        cpuinfo: Linux' file about the processor; missing on other systems.

    Returns:
        "bfloat16", "float16" or "float32", and a reason for the log.
    """
    if not gpus:
        flags = _cpu_flags(cpuinfo) & _BFLOAT16_FLAGS
        if flags:
            return "bfloat16", f"the CPU has {min(flags)}"
        return "float32", "the CPU has no instructions for bfloat16"
    capabilities = [tuple(gpu.get("compute_capability", (0, 0))) for gpu in gpus]
    lowest = min(capabilities)
    name = gpus[capabilities.index(lowest)].get("device_name", "GPU")
    reason = f"{name}, compute capability {'.'.join(map(str, lowest))}"
    if lowest >= (8, 0):
        return "bfloat16", reason
    return ("float16" if lowest >= (7, 0) else "float32"), reason


def _cpu_flags(cpuinfo: Path) -> set[str]:
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name.strip() == "flags":
            return set(values.split())
    return set()


def dealt_gpus(workers: int, visible: str | None, folder: Path = _DEVICE_FILES) -> list[str]:
    """Return the value of CUDA_VISIBLE_DEVICES for each of several workers of a machine.

    Args:
        workers: Number of workers.
        visible: CUDA_VISIBLE_DEVICES of the launcher, None if it is not set.
        folder: As for `device_files`.

    Returns:
        The values, each with the same number of GPUs as far as possible; empty if there is no
        GPU to deal out.
    """
    if visible is None:
        found = [str(index) for index in range(len(device_files(folder)))]
    else:
        found = [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    if not found:
        return []
    each = len(found) // workers
    return [",".join(found[index * each : (index + 1) * each]) for index in range(workers)]
