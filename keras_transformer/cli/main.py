"""Common parts of the entry points: exit status, error messages, signals, TensorFlow import.

TensorFlow is imported after the options are read, so that ``--help`` and a mistyped option
answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from keras_transformer.cli import standard_streams
from keras_transformer.errors import UserError

# Read by TensorFlow and Keras when they are imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

# TensorFlow 2.21 prints these while it is imported, whatever the value of TF_CPP_MIN_LOG_LEVEL:
# its logging has not read the variable yet.
_IMPORT_LOG = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")

# Write errors that the program does not cause; many come without a file name.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def run_main(name: str) -> Callable[[Callable[[Sequence[str]], None]], Callable[..., int]]:
    """Decorate an entry point's ``main(argv)`` so that it returns an exit status.

    0: done. 2: a mistake of the user, explained without a stack trace. 130: interrupted.
    141: the reader of the output is gone. 143: SIGTERM.

    Args:
        name: The module that is run, such as ``train``.
    """

    def decorate(main: Callable[[Sequence[str]], None]) -> Callable[..., int]:
        @functools.wraps(main)
        def run(argv: Sequence[str] | None = None) -> int:
            standard_streams.prepare()
            logging.basicConfig(format="%(levelname)s: %(message)s")
            try:
                main(sys.argv[1:] if argv is None else argv)
                sys.stdout.flush()
            except UserError as error:
                return fail(name, str(error))
            except BrokenPipeError:
                # Python flushes once more at exit; send that to the null device.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return 141
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                return 130
            except OSError as error:
                if error.filename is None and error.errno not in _WRITE_ERRORS:
                    raise
                place = f"{error.filename}: " if error.filename is not None else ""
                return fail(name, f"{place}{error.strerror}")
            return 0

        return run

    return decorate


def fail(name: str, message: str) -> int:
    """Print an error message of the entry point ``name``; return exit status 2."""
    print(f"keras_transformer.{name}: error: {message}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into SystemExit(143) so that temporary files are removed."""

    def end(number: int, frame: object) -> None:
        print("terminated", file=sys.stderr)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def import_tensorflow() -> None:
    """Import TensorFlow, its text operations and Keras; warnings and errors still show.

    Set ``TF_CPP_MIN_LOG_LEVEL=0`` to see everything.
    """
    everything = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    with contextlib.nullcontext() if everything else _without_import_log():
        for name in ("tensorflow", "tensorflow_text", "keras"):
            importlib.import_module(name)


@contextlib.contextmanager
def _without_import_log() -> Iterator[None]:
    """Hold back writes to file descriptor 2, then write all but the lines of ``_IMPORT_LOG``."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            for line in held:
                if not _IMPORT_LOG.match(line):
                    os.write(2, line)
