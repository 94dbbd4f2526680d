"""What happens around an entry point: exit status, messages, output, TensorFlow's start.

TensorFlow is imported after the options are read, so that ``--help`` and a mistyped
option answer at once.
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
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tqdm import tqdm

from keras_transformer.cli.options import Options, Parser, UsageError
from keras_transformer.errors import UserError
from keras_transformer.system import core_count

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Progress, Translator

# Read by TensorFlow and Keras when they are imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

# TensorFlow 2.21 prints these while it is imported, whatever TF_CPP_MIN_LOG_LEVEL says:
# its logging has not yet read the variable then.
_GREETING = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")

# Writing that fails without any fault of the program, often without a file name.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def run_main(name: str) -> Callable[[Callable[[Sequence[str]], None]], Callable[..., int]]:
    """Decorate an entry point's ``main(argv)`` so that it returns an exit status.

    0: done. 2: a mistake of the user, told in a few lines without a stack trace. 130:
    interrupted. 141: nobody reads the output any more. 143: ended by SIGTERM.

    Args:
        name: The module that is run, such as ``train``.
    """

    def decorate(main: Callable[[Sequence[str]], None]) -> Callable[..., int]:
        @functools.wraps(main)
        def run(argv: Sequence[str] | None = None) -> int:
            for stream in (sys.stdout, sys.stderr):
                if hasattr(stream, "reconfigure"):
                    stream.reconfigure(encoding="utf-8")
            logging.basicConfig(format="%(levelname)s: %(message)s")
            try:
                main(sys.argv[1:] if argv is None else argv)
                sys.stdout.flush()
            except UserError as error:
                return _failed(name, str(error))
            except BrokenPipeError:
                # Python flushes once more at its end; let that go nowhere.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return 141
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                return 130
            except OSError as error:
                if error.filename is None and error.errno not in _FULL:
                    raise
                place = f"{error.filename}: " if error.filename is not None else ""
                return _failed(name, f"{place}{error.strerror}")
            return 0

        return run

    return decorate


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within, SIGTERM ends the program with status 143 as an exit does: what is aside goes."""

    def end(number: int, frame: object) -> None:
        print("terminated", file=sys.stderr)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _failed(name: str, message: str) -> int:
    print(f"keras_transformer.{name}: error: {message}", file=sys.stderr)
    return 2


def standard_input() -> Iterator[str]:
    """The lines of standard input, as they come.

    Raises:
        UsageError: A line is not UTF-8.
    """
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input, line {number}: expected UTF-8, {error}") from None
        yield text.removesuffix("\n").removesuffix("\r")


@contextlib.contextmanager
def output(path: str | None) -> Iterator[TextIO]:
    """A UTF-8 text stream: standard output, or a file that appears only when it is whole.

    Raises:
        UsageError: ``path`` is a folder, or in none.
    """
    if path is None:
        yield sys.stdout
        return
    with (
        written(path, "--output") as place,
        place.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


@contextlib.contextmanager
def written(path: str, option: str) -> Iterator[Path]:
    """Where to write what then appears at ``path``, whole or not at all.

    Args:
        path: What the user named.
        option: The option that named it, for messages.

    Raises:
        UsageError: ``path`` is a folder, or in none.
    """
    place = place_of(path, option)
    if place.exists() and not place.is_file():  # a device or a pipe cannot be replaced
        yield place
        return
    aside = place.with_name(f"{place.name}.part")
    try:
        yield aside
        aside.replace(place)
    finally:
        aside.unlink(missing_ok=True)


def place_of(path: str, option: str) -> Path:
    """The file behind a name; a link stays one.

    Raises:
        UsageError: ``path`` is a folder, or in none.
    """
    place = Path(os.path.realpath(path))
    if place.is_dir() or not place.parent.is_dir():
        found = "a folder" if place.is_dir() else "no such folder"
        raise UsageError(f"{option} {path}: expected a file to write, found {found}")
    return place


def import_tensorflow() -> None:
    """Import TensorFlow, its text operations and Keras; warnings and errors still show.

    Set ``TF_CPP_MIN_LOG_LEVEL=0`` to see everything.
    """
    names = ("tensorflow", "tensorflow_text", "keras")
    everything = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    with contextlib.nullcontext() if everything else _without_greetings():
        for name in names:
            importlib.import_module(name)


@contextlib.contextmanager
def _without_greetings() -> Iterator[None]:
    """Hold back what is written to file descriptor 2; then write all but the greetings."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not _GREETING.match(line):
                    os.write(2, line)


def add_run(parser: Parser) -> None:
    """Add the option ``--run`` of the entry points that use a trained run."""
    parser.add_argument("--run", metavar="DIR", help="Run folder of the trained model.")


def add_speed(parser: Parser) -> None:
    """Add the options that say how a run is computed; what comes out differs by rounding only."""
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16"],
        default="float32",
        help="What weights are kept and computed in. bfloat16 takes half the memory, and 0.7 to "
        "0.8 of the time where the processor multiplies in it; some translations then differ.",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="Batches computed side by side, with the cores shared out among them; else one a "
        "core, or one in all with a GPU. 1 answers a single sentence of a large model sooner.",
    )


def load_translator(options: Options) -> Translator:
    """The translator of ``--run``, with the search options that the user gave.

    Raises:
        UserError: No run is named, the folder is no run, or an option makes no sense.
    """
    if options.own.run is None:
        raise UsageError("--run DIR is missing: the run folder of a trained model")
    if options.own.workers is not None and options.own.workers < 1:
        raise UsageError(f"--workers: expected 1 or more, got {options.own.workers}")
    import_tensorflow()
    workers = _share_cores(options.own.workers)
    from keras_transformer.inference.translator import Translator
    from keras_transformer.run import Run

    run = Path(options.own.run)
    search = options.config(Run.open(run).config).search
    return Translator.from_run(run, search, dtype=options.own.dtype, workers=workers)


def _share_cores(workers: int | None) -> int:
    """Give each of ``workers`` its cores, before TensorFlow takes them all; None chooses."""
    import tensorflow as tf

    if workers is None:
        workers = 1 if tf.config.list_physical_devices("GPU") else core_count()
    with contextlib.suppress(RuntimeError):  # in a program that has used TensorFlow before
        tf.config.threading.set_intra_op_parallelism_threads(max(core_count() // workers, 1))
    return workers


def watched(elsewhere: bool = False) -> bool:
    """Whether a bar disturbs nobody: a person looks, and the output goes elsewhere.

    Args:
        elsewhere: The output does not go to standard output.
    """
    return sys.stderr.isatty() and (elsewhere or not sys.stdout.isatty())


@contextlib.contextmanager
def progress(
    total: int | None, *, done: int = 0, elsewhere: bool = False
) -> Iterator[Progress | None]:
    """A bar on standard error: sentences a second and, if their number is known, the time left.

    Args:
        total: Number of lines in all, None where it is not known.
        done: Lines that were done before.
        elsewhere: As in ``watched``; there is no bar where it says no.
    """
    if not watched(elsewhere):
        yield None
        return
    with tqdm(total=total, initial=done, unit=" sentences", file=sys.stderr) as bar:
        yield bar.update
