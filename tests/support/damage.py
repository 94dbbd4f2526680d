"""Files that are damaged, replaced or swapped; and a time limit for what might wait for ever."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from keras_transformer.errors import UserError

KINDS = (
    *("missing", "empty", "cut", "swapped", "moved and linked", "dangling link", "link to itself"),
    *("folder", "pipe", "unreadable"),
)


class Damage(NamedTuple):
    """A change to one file of a folder."""

    file: str
    """Path in the folder."""
    kind: str
    """One of `KINDS`."""
    share: float = 0.5
    """Part of the file that is left, where it is cut."""


def damages(folder: Path) -> st.SearchStrategy[Damage]:
    """Return a strategy for the damages of one file in a folder."""
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    share = st.floats(0, 1, exclude_max=True)
    return st.builds(Damage, st.sampled_from(files), st.sampled_from(KINDS), share)


def apply(damage: Damage, folder: Path, other: Path) -> None:
    """Damage a file in ``folder``; ``other`` is a folder with the same names, to swap files with.

    Nothing happens to a file that ``other`` does not have.
    """
    path, kind = folder / damage.file, damage.kind
    content = path.read_bytes()
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "cut":
        path.write_bytes(content[: int(len(content) * damage.share)])
    elif kind == "swapped":
        source = other / damage.file
        path.write_bytes(source.read_bytes() if source.is_file() else content)
    elif kind == "moved and linked":
        (path.parent / ".moved").write_bytes(content)
        path.symlink_to(".moved")
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "link to itself":
        path.symlink_to(path.name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "unreadable":
        if os.geteuid():
            path.write_bytes(content)
            path.chmod(0)
        else:  # permissions do not stop root; reading this one fails for everybody
            path.symlink_to("/proc/self/mem")


def harmless(damage: Damage, folder: Path, other: Path) -> bool:
    """Return whether the file is still what it was."""
    if damage.kind == "swapped":
        theirs = other / damage.file
        same = not theirs.is_file()
        return same or theirs.read_bytes() == (folder / damage.file).read_bytes()
    return damage.kind == "moved and linked"


@contextmanager
def fresh_copy(folder: Path, place: Path) -> Iterator[Path]:
    """Copy a folder, and delete the copy at the end."""
    copy = Path(shutil.copytree(folder, place, symlinks=True))
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


@contextmanager
def time_limit(seconds: int = 30) -> Iterator[None]:
    """Raise TimeoutError if the block has not ended in time, as one that reads a pipe."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(load: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result and "", or None and the message of a user's error."""
    try:
        return load(), ""
    except UserError as error:
        return None, str(error)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all regular files below a folder by their path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
