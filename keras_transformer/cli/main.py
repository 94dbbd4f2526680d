"""Common parts of the entry points: exit status, error messages, signals, TensorFlow import.

TensorFlow is imported after the options are read, so ``--help`` and a mistyped option answer at
once.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from keras_transformer import environment
from keras_transformer.cli import standard_streams
from keras_transformer.errors import UserError
from keras_transformer.standard_error import tolerant_stderr
from keras_transformer.stop_signals import REPEATED_SIGNALS, restore_handlers, stop_signals

# TensorFlow 2.21 prints these lines while it is imported, before it reads TF_CPP_MIN_LOG_LEVEL.
_IMPORT_LOG = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# Write errors that are no defect of the program, although many of them name no file.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def run_main(name: str) -> Callable[[Callable[[Sequence[str]], None]], Callable[..., int]]:
    """Decorate an entry point's ``main(argv)`` so that it returns an exit status.

    0: done. 2: a mistake of the user, explained without a stack trace. 129: SIGHUP.
    130: interrupted. 141: the reader of the output is gone. 143: SIGTERM. 152: SIGXCPU.
    The environment is set for the command, and messages that cannot be written are dropped.

    Args:
        name: The module that is run, such as ``train``.
    """

    def decorate(main: Callable[[Sequence[str]], None]) -> Callable[..., int]:
        @functools.wraps(main)
        @tolerant_stderr()
        def run(argv: Sequence[str] | None = None) -> int:
            environment.set_for_command(name)
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
    """Print an error message of the entry point ``name``; return exit status 2.

    Control characters, which may be part of a name or a text, are escaped for the terminal.
    """
    printable = _CONTROL.sub(lambda found: repr(found[0])[1:-1], message)
    print(f"keras_transformer.{name}: error: {printable}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn stop signals into SystemExit so that temporary files are removed.

    SIGINT stays Python's KeyboardInterrupt. A signal that the process was started to ignore stays
    ignored.
    """
    numbers = [number for number in stop_signals() if number != signal.SIGINT]
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}

    def end(number: int, frame: object) -> None:
        for each in numbers:  # a repetition must not interrupt the removal of files
            if each.name in REPEATED_SIGNALS:
                signal.signal(each, signal.SIG_IGN)
        name = signal.Signals(number).name
        print("terminated" if name == "SIGTERM" else f"ended by {name}", file=sys.stderr)
        raise SystemExit(128 + number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        restore_handlers(before)


def import_tensorflow() -> None:
    """Import TensorFlow, its text operations and Keras; warnings and errors still show.

    Set ``TF_CPP_MIN_LOG_LEVEL=0`` to see everything.

    Raises:
        UserError: Windows, or a setting with which Keras cannot work.
    """
    if sys.platform == "win32":
        raise UserError(
            "Windows: TensorFlow's text operations have no packages for it; run the command in "
            "WSL 2, the Linux of Windows"
        )
    everything = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    with contextlib.nullcontext() if everything else _without_import_log():
        environment.leave_out_broken_matplotlib()
        environment.import_keras()
        environment.import_tensorflow_text()


@contextlib.contextmanager
def _without_import_log() -> Iterator[None]:
    """Buffer writes to descriptor 2, then write them without the lines of ``_IMPORT_LOG``."""
    sys.stderr.flush()
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(tempfile.TemporaryFile())
            stderr = os.dup(2)
        except OSError:  # no standard error, or no folder for temporary files
            yield
            return
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
                    with contextlib.suppress(OSError):
                        os.write(2, line)
