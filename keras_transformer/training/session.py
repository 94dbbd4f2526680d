"""Devices, processor and libraries of a training session, on which rounding depends."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.devices import gpu_details
from keras_transformer.environment import ARITHMETIC
from keras_transformer.system import core_count
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.parts import TrainingParts

# Instruction sets among which TensorFlow's kernels choose; they round or sum differently.
_INSTRUCTIONS = (
    *("sse4_2", "avx", "fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "asimd", "sve", "sve2", "bf16"),
)
_VARIABLES = (*ARITHMETIC, "TF_NUM_INTRAOP_THREADS")
"""Environment variables that choose kernels or divide sums among threads."""


def describe_session(distribution: Distribution) -> dict[str, Any]:
    """Return the hardware, versions and variables that rounding in a step depends on, by name.

    Args:
        distribution: The devices and workers of this session.
    """
    found: dict[str, Any] = {
        "devices": _devices(distribution),
        "workers": distribution.workers,
        "processor": processor(Path("/proc/cpuinfo")),
        "cores": core_count(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
    found.update({name: os.environ.get(name, "") for name in _VARIABLES})
    return found


def log_session(parts: TrainingParts) -> None:
    """Store the description of this session, and log its differences from the last one."""
    if not parts.distribution.chief:
        return
    now, before = describe_session(parts.distribution), parts.run.last_session()
    if parts.state.step and (line := differences(before, now)):
        parts.run_log.line(line)
    parts.run.write_versions(now)


def differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return a line about the differences between two sessions of a run; "" if there are none.

    Args:
        before: From `describe_session`; entries that an earlier version did not store are skipped.
        now: From `describe_session`.
    """
    changed = [
        f"{name} {before[name] or 'not set'}, now {value or 'not set'}"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
    if not changed:
        return ""
    return (
        f"differs from the last session: {'; '.join(changed)}. The mathematics stay the same; "
        "rounding differs, and with other devices so do the dropout masks. From here on the run "
        "no longer equals an uninterrupted one to the last bit"
    )


def processor(cpuinfo: Path) -> str:
    """Return the architecture and the instruction sets that decide between kernels.

    Args:
        cpuinfo: Linux' file about the processor; missing on other systems.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    flags: set[str] = set()
    for line in lines:
        name, _, values = line.partition(":")
        if name.strip() in ("flags", "Features"):  # of x86, and of ARM
            flags = set(values.split())
            break
    return " ".join([platform.machine(), *(name for name in _INSTRUCTIONS if name in flags)])


def _devices(distribution: Distribution) -> str:
    """Return the number and the name of the devices of all workers, such as "2 x CPU"."""
    names = sorted({str(gpu.get("device_name", "GPU")) for gpu in gpu_details()})
    return f"{distribution.devices} x {' and '.join(names) or 'CPU'}"
