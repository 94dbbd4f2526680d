"""Standard input, output files and progress bars of the entry points."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tqdm import tqdm

from keras_transformer import system
from keras_transformer.cli.messages import UsageError

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Progress


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input as they arrive.

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
    """Open a UTF-8 text stream: standard output, or a file that appears when it is complete.

    Raises:
        UsageError: ``path`` is a folder, or its folder does not exist.
    """
    if path is None:
        yield sys.stdout
        return
    with (
        output_file(path, "--output") as writable,
        writable.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


@contextlib.contextmanager
def output_file(path: str, option: str) -> Iterator[Path]:
    """Yield the path to write to; the file appears at ``path`` when it is complete.

    Args:
        path: The file that the user named.
        option: The option that named it, for messages.

    Raises:
        UsageError: ``path`` is a folder, or its folder does not exist.
    """
    target = output_path(path, option)
    if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced
        yield target
        return
    with system.atomic_file(target) as partial:
        yield partial


def output_path(path: str, option: str) -> Path:
    """Resolve the symbolic links of an output path: writing must replace the file, not a link.

    Raises:
        UsageError: ``path`` is a folder, or its folder does not exist.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():
        found = "a folder" if target.is_dir() else "no such folder"
        raise UsageError(f"{option} {path}: expected a file to write, found {found}")
    return target


def shows_progress(to_file: bool = False) -> bool:
    """Return whether to show a progress bar: on a terminal that does not also show the output.

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
        to_file: As for ``shows_progress``; without a bar, None is yielded.
    """
    if not shows_progress(to_file):
        yield None
        return
    with tqdm(total=total, initial=done, unit=" sentences", file=sys.stderr) as bar:
        yield bar.update
