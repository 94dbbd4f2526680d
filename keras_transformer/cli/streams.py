"""Inputs, outputs and progress bars of the entry points."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from tqdm import tqdm

from keras_transformer import system
from keras_transformer.cli import standard_streams
from keras_transformer.cli.messages import UsageError
from keras_transformer.data.lines import LineStream, read_lines

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Progress

_MAX_LINKS = 40  # as many as Linux follows


@contextlib.contextmanager
def input_lines(path: str | None) -> Iterator[LineStream | Iterator[str]]:
    """Open lines of UTF-8 text; as a `LineStream` if they may arrive one by one.

    Args:
        path: A file, a pipe or a device; None: standard input.

    Raises:
        DataError: While reading: the input is missing, unreadable, or not UTF-8 (with the line).
    """
    if path is None:
        yield LineStream(sys.stdin.buffer, "standard input")
    elif _is_special(path):
        with open(path, "rb") as file:
            yield LineStream(file, path)
    else:
        yield read_lines(path)


def _is_special(path: str) -> bool:
    """Return True for a device, a pipe or a socket."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextlib.contextmanager
def output(path: str | None, option: str = "--output") -> Iterator[TextIO]:
    """Open an output for UTF-8 text.

    Args:
        path: As for `output_file`; None: standard output.
        option: As for `output_file`.

    Raises:
        UsageError: As for `output_file`.
        UserError: Standard output is closed.
        FileError: As for `output_file`.
    """
    if path is None:
        standard_streams.require_output()
        yield sys.stdout
        return
    with (
        output_file(path, option) as binary,
        io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


@contextlib.contextmanager
def output_file(path: str, option: str) -> Iterator[BinaryIO]:
    """Open an output for bytes: a file that appears when it is complete, a device or a pipe.

    An open descriptor such as ``/dev/stdout`` or ``/dev/fd/3`` is written at its position, so that
    a file to which the shell appends keeps its contents.

    Args:
        path: The file that the user named.
        option: The option that named it, for messages.

    Raises:
        UsageError: ``path`` is a folder, its folder does not exist, or the descriptor cannot be
            written.
        FileError: The file cannot be written, or another process is writing it.
    """
    number = descriptor(path)
    if number is not None:
        with _named(path, option), _open_descriptor(number, path, option) as stream:
            yield stream
        return
    target = output_path(path, option)
    if _is_special(path):  # a device or a pipe cannot be replaced
        with _named(path, option), target.open("wb") as stream:
            yield stream
        return
    with system.atomic_file(target) as partial, partial.open("wb") as stream:
        yield stream


@contextlib.contextmanager
def _named(path: str, option: str) -> Iterator[None]:
    """Name the output in an error of writing, such as a full disk; a reader may leave."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise system.FileError(f"{option} {path}: cannot be written: {reason}") from error


def output_path(path: str, option: str) -> Path:
    """Resolve the symbolic links of an output path, since a rename would replace the link.

    The path of a device or a pipe stays as it is.

    Raises:
        UsageError: ``path`` is a folder, or its folder does not exist.
    """
    if _is_special(path):
        return Path(path)  # the link /proc/PID/fd/N of a pipe leads to no path
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():
        found = "a folder" if target.is_dir() else "no such folder"
        raise UsageError(f"{option} {path}: expected a file to write, found {found}")
    return target


def descriptor(path: str) -> int | None:
    """Return the number N if ``path`` leads to ``/dev/fd/N`` of this process, else None."""
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(os.path.abspath(path))
        path = os.path.join(os.path.realpath(folder), name)
        if match := re.fullmatch(rf"(?:/dev/fd|/proc/(?:self|{os.getpid()})/fd)/(\d+)", path):
            return int(match[1])
        if not os.path.islink(path):
            return None
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return None


def _open_descriptor(number: int, path: str, option: str) -> BinaryIO:
    """Open a copy of a descriptor; the two share their position."""
    try:
        os.write(number, b"")
        writable = not standard_streams.was_closed(number)
    except OSError:
        writable = False
    if not writable:
        raise UsageError(
            f"{option} {path}: expected a descriptor to write, got one that is closed or only read"
        )
    return cast(BinaryIO, _Unseekable(os.fdopen(os.dup(number), "wb", buffering=0)))


class _Unseekable(io.BufferedWriter):
    """A stream without seeking, because other programs may share its position."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")

    def seek(self, target: int, whence: int = 0) -> int:
        raise io.UnsupportedOperation("seek")


def check_outputs(outputs: dict[str, str | None], inputs: Iterable[Path | str | None]) -> None:
    """Refuse to write a file that the same command reads, or to write one file twice.

    Args:
        outputs: Paths by option; None: the option is left out, which for ``--output`` means
            standard output. The shell may have redirected that to such a file.
        inputs: Paths that the command reads; None: standard input.

    Raises:
        UsageError: Names the option and the file.
    """
    # Only regular files: a socket or a terminal may be read and written at the same time.
    read = {_identity(path, 0, stat.S_ISREG) for path in inputs} - {None}
    written: dict[object, str] = {}
    for option, path in outputs.items():
        if path is None and option != "--output":
            continue
        name = f"{option} {path}" if path is not None else "standard output"
        file = _identity(path, 1, lambda mode: stat.S_ISREG(mode) or stat.S_ISFIFO(mode))
        if file in read:
            raise UsageError(f"{name}: this command reads it too; expected another file")
        if file in written:
            raise UsageError(f"{name}: {written[file]} goes there too; expected another file")
        if file is not None:
            written[file] = name


def _identity(path: Path | str | None, standard: int, matters: Callable[[int], bool]) -> object:
    """Return a key that is equal for all names of one file; None if its kind does not matter.

    Args:
        path: The file; None: a standard stream.
        standard: Descriptor of that stream.
        matters: Decides by the mode of the file.
    """
    try:
        if path is None:
            status = os.fstat(standard)
        else:
            number = descriptor(os.fspath(path))
            status = os.stat(path) if number is None else os.fstat(number)
    except FileNotFoundError:
        return os.path.realpath(cast(str, path))  # an output that does not exist yet
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if matters(status.st_mode) else None


def is_terminal(path: str | None) -> bool:
    """Return True for an output on a terminal; None: standard output."""
    if path is None:
        return sys.stdout.isatty()
    number = descriptor(path)
    return number is not None and os.isatty(number)


def shows_progress(to_file: bool = False) -> bool:
    """Decide whether to show a progress bar: on a terminal that does not also show the output.

    Args:
        to_file: Whether the output goes to a file, not to standard output.
    """
    return sys.stderr.isatty() and (to_file or not sys.stdout.isatty())


@contextlib.contextmanager
def progress(
    total: int | None, *, done: int = 0, to_file: bool = False
) -> Iterator[Progress | None]:
    """Show a progress bar on standard error: sentences per second and the time left.

    Args:
        total: Total number of lines; None if unknown.
        done: Lines done before.
        to_file: As for ``shows_progress``.

    Yields:
        A function that counts further lines; None if no bar is shown.
    """
    if not shows_progress(to_file):
        yield None
        return
    with tqdm(total=total, initial=done, unit=" sentences", file=sys.stderr) as bar:
        yield bar.update
