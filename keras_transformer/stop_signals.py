"""Stop signals: their numbers, handlers for a time, and the end of a parent process."""

from __future__ import annotations

import contextlib
import ctypes
import signal
from collections.abc import Mapping
from typing import Any

REPEATED_SIGNALS = ("SIGHUP", "SIGXCPU")
"""Stop signals that arrive more than once for one reason, even while the process exits.

When a terminal closes, the kernel and the shell both send SIGHUP. Past the limit on processor
time, SIGXCPU comes every second.
"""

_PR_SET_PDEATHSIG = 1  # of Linux


def stop_signals() -> list[signal.Signals]:
    """Return the signals that ask this process to end, except those that it ignores.

    A program under ``nohup`` ignores SIGHUP; a background process of a shell script, SIGINT.
    """
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGXCPU")  # the last two are missing on Windows
    found = [signal.Signals[name] for name in names if hasattr(signal, name)]
    return [number for number in found if signal.getsignal(number) != signal.SIG_IGN]


def restore_handlers(handlers: Mapping[int, Any]) -> None:
    """Restore signal handlers.

    A signal that is ignored by now stays ignored, because it is ending the process.

    Args:
        handlers: Earlier results of `signal.getsignal` by signal number. None, which stands for
            the handler of a library in C, cannot be restored and is skipped.
    """
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def end_with_parent() -> None:
    """Ask for SIGTERM when the parent process is killed; for ``preexec_fn`` on Linux."""
    with contextlib.suppress(AttributeError, OSError):  # a C library without prctl
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
