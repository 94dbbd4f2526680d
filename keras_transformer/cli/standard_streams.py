"""Standard input, output and error of a process, which may be closed or non-blocking.

A closed descriptor is opened on the null device. Otherwise the next file that the process opens
would get its number, and messages of libraries would be written into that file.
"""

from __future__ import annotations

import contextlib
import os
import sys

from keras_transformer.errors import UserError

_NAMES = ("stdin", "stdout", "stderr")


def prepare() -> None:
    """Make the standard streams usable: open, blocking, and UTF-8 in any locale.

    Undecodable bytes of file names are escaped.
    """
    for descriptor, name in enumerate(_NAMES):
        _open_if_closed(descriptor)
        # A pipe may come non-blocking: reads would end too early, and writes would fail.
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: Windows
            os.set_blocking(descriptor, True)
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _open_if_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)  # the lowest free number
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        os.set_inheritable(descriptor, True)


def was_closed(descriptor: int) -> bool:
    """Return True for the descriptor of a standard stream that was closed when Python started."""
    return descriptor < len(_NAMES) and getattr(sys, f"__{_NAMES[descriptor]}__") is None


def require_output() -> None:
    """Refuse a closed standard output before results are computed.

    Raises:
        UserError: It is closed.
    """
    if was_closed(1):
        raise UserError("standard output is closed; expected a place for the results")
