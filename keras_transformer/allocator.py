"""Settings of glibc's memory allocator for training on the CPU.

A training step allocates large buffers and frees them again. By default glibc gives them back to
the kernel each time, and the kernel clears their pages in the next step. On two cores that takes 30
to 40 % of a step of a small model. TensorFlow's oneDNN operations, on by default on processors with
AVX512-VNNI, pool large buffers themselves; there the settings change little.
"""

from __future__ import annotations

import ctypes
import os
import re

from keras_transformer.errors import UserError

VARIABLE = "KERAS_TRANSFORMER_TUNE_ALLOCATOR"
"""Environment variable; 0 leaves the allocator as it is."""

# Parameters of malloc.h. Large buffers come from the heap too: a mapping of their own would be
# unmapped when they are freed. The heap's end is kept, and it grows by 256 MiB at a time.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_SETTINGS = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1, _M_TOP_PAD: 256 * 2**20}
# The same parameters, set by the user.
_TUNABLES = re.compile(r"glibc\.malloc\.(mmap_max|mmap_threshold|trim_threshold|top_pad)=")
_VARIABLES = tuple(
    f"MALLOC_{name}_" for name in ("MMAP_MAX", "MMAP_THRESHOLD", "TRIM_THRESHOLD", "TOP_PAD")
)

_report: list[str] = []


def tune_allocator() -> bool:
    """Let glibc keep the memory that a training step frees for the next step.

    Call it before TensorFlow is imported: it affects later allocations only. The process then
    keeps its peak memory until it ends. Nothing changes without glibc, with another allocator, if
    the user has set glibc's own variables, or if ``KERAS_TRANSFORMER_TUNE_ALLOCATOR`` is 0.

    Returns:
        True if the settings are in effect.

    Raises:
        UserError: The variable is neither 0 nor 1.
    """
    _report.clear()
    wanted = os.environ.get(VARIABLE) or "1"
    if wanted not in ("0", "1"):
        raise UserError(f"{VARIABLE}: expected 0 or 1, got {wanted!r}")
    if wanted == "0":
        return False
    variable = _users_variable()
    if variable:
        _report.append(f"memory allocator: as set by {variable}")
        return False
    libc = _glibc()
    if libc is None or not all(libc.mallopt(*setting) for setting in _SETTINGS.items()):
        return False
    _report.append(f"memory allocator: keeps what a step frees ({VARIABLE}=0 turns this off)")
    return True


def report() -> list[str]:
    """Return a line for the log about the last `tune_allocator`, if there is something to say."""
    return list(_report)


def _users_variable() -> str:
    """Return the variable by which the user has set the allocator, or an empty string."""
    if _TUNABLES.search(os.environ.get("GLIBC_TUNABLES", "")):
        return "GLIBC_TUNABLES"
    return next((name for name in _VARIABLES if os.environ.get(name)), "")


def _glibc() -> ctypes.CDLL | None:
    """Return glibc if its allocator is the one in use."""
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return None
        program, libc = ctypes.CDLL(None), ctypes.CDLL("libc.so.6")
        addresses = [ctypes.cast(each.malloc, ctypes.c_void_p).value for each in (program, libc)]
    except (AttributeError, OSError, TypeError, ValueError):  # musl, macOS, Windows
        return None
    # A preloaded allocator, such as jemalloc, has a malloc of its own.
    return libc if addresses[0] == addresses[1] else None
