"""What the server may be told, and the errors of telling it wrongly."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.errors import UserError
from keras_transformer.serving.settings import MAX_VERSION
from keras_transformer.serving.version_folder import version_number
from keras_transformer.system import core_count

SAVED_MODEL = "saved_model.pb"


class ServeError(UserError):
    """A folder, a name or a limit that the server cannot work with."""


@dataclass(frozen=True)
class Settings:
    """The server's options that have a default."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in, which nothing here protects."""
    port: int = 8501
    """Port to listen on; 0 takes a free one."""
    name: str = ""
    """Name of the model in the URLs; default: the last part of DIR."""
    versions: str = "latest"
    """Which versions to serve: latest, all, or numbers with commas between."""
    poll_s: float = 1.0
    """Seconds between looks for new versions in DIR."""
    max_batch_size: int = 64
    """Most rows that run together; a larger request runs in pieces."""
    batch_timeout_ms: float = 0.0
    """How long a batch that is not full waits for more rows."""
    batches: int = 0
    """How many batches may run at the same time; 0: one for each processor."""
    threads: int = 1
    """Threads for a single operation; 1 is quickest where batches keep all processors busy."""
    max_queue: int = 4096
    """Most rows that may wait; beyond, requests are answered with 503."""
    max_text_kb: int = 512
    """Longest single text, in KiB of UTF-8; beyond, the answer is 413."""
    max_body_mb: float = 16.0
    """Largest request body, in MiB; beyond, the answer is 413."""
    timeout_s: float = 30.0
    """Time for a request, its body and its answer; beyond, the answer is 504 (408: slow body)."""
    grace_s: float = 30.0
    """How long a server that was told to stop may work on what it has taken."""
    max_connections: int = 512
    """Most connections at a time; beyond, they are answered with 503."""

    def __post_init__(self) -> None:
        _within("port", self.port, 0, 65535)
        for name in ("max_batch_size", "threads", "max_queue", "max_text_kb", "max_connections"):
            _within(name, getattr(self, name), 1)
        _within("batches", self.batches, 0)
        for name in ("poll_s", "max_body_mb", "timeout_s"):
            _within(name, getattr(self, name), 0.001)
        for name in ("batch_timeout_ms", "grace_s"):
            _within(name, getattr(self, name), 0)
        if not re.fullmatch(r"[^/:\s]*", self.name):
            raise ServeError(
                f"name: expected a text without '/', ':' and spaces, got {self.name!r}"
            )
        Policy.parse(self.versions)

    @property
    def batches_at_once(self) -> int:
        """``batches``, counted out."""
        return self.batches or core_count()


def _within(name: str, value: float, low: float, high: float = math.inf) -> None:
    if not low <= value <= high or not math.isfinite(value):
        limits = f"{low} or more" if high == math.inf else f"{low} to {high}"
        raise ServeError(f"{name}: expected {limits}, got {value}")


@dataclass(frozen=True)
class Policy:
    """Which of the versions in a folder are to be served.

    Attributes:
        newest: Only one, the highest that can be loaded.
        numbers: Only these, where there are any.
    """

    newest: bool = False
    numbers: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Read ``latest``, ``all`` or ``3,4``.

        Raises:
            ServeError: It is none of them.
        """
        if text in ("latest", "all"):
            return cls(newest=text == "latest")
        if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
            raise ServeError(f"versions: expected latest, all or numbers such as 3,4, got {text!r}")
        return cls(numbers=frozenset(int(number) for number in text.split(",")))

    def choose(self, found: Sequence[int]) -> list[int]:
        """Those of the versions that are there which may be served, highest first."""
        return sorted(self.numbers.intersection(found) if self.numbers else found, reverse=True)


def parse_labels(pairs: Sequence[str]) -> dict[str, int]:
    """Labels of versions, from texts such as ``stable=3``.

    Raises:
        ServeError: A text of another form, or a label given twice.
    """
    labels: dict[str, int] = {}
    for pair in pairs:
        found = re.fullmatch(r"([^/:=\s]+)=(\d+)", pair, re.ASCII)
        if not found:
            raise ServeError(f"label: expected a name and a version such as stable=3, got {pair!r}")
        if found[1] in labels:
            raise ServeError(f"label: {found[1]!r} is given twice")
        labels[found[1]] = int(found[2])
    return labels


def find_versions(folder: Path) -> tuple[dict[int, Path], dict[str, str]]:
    """What in a model's folder has a number for its name.

    Returns:
        The folders of versions by number, and, by name, why others are none.
    """
    found: dict[int, Path] = {}
    ignored = {}
    for place in sorted(folder.iterdir()):
        number = version_number(place.name)
        if number is None:
            continue
        if number > MAX_VERSION:
            ignored[place.name] = f"expected a number of at most {MAX_VERSION} for a name"
        elif not (place / SAVED_MODEL).is_file():
            ignored[place.name] = f"there is no {SAVED_MODEL} in it"
        else:
            found[number] = place
    return found, ignored


def check_folder(folder: Path) -> str:
    """See that a folder holds versions of a model.

    Returns:
        The folder's own name, the model's by default.

    Raises:
        ServeError: It does not; the message says what was found.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing there"
        raise ServeError(f"{folder}: expected a folder with versions of a model, found {found}")
    whole = folder.resolve()
    if (folder / SAVED_MODEL).is_file():
        raise ServeError(
            f"{folder}: this is one version of a model (it holds {SAVED_MODEL}); name the folder "
            f"that holds the versions, {whole.parent}"
        )
    versions, ignored = find_versions(folder)
    if not versions:
        reasons = [f"{folder / name}: {reason}" for name, reason in ignored.items()]
        message = "there is no version of a model in it; expected a folder such as"
        example = f"{folder / '1' / SAVED_MODEL}"
        raise ServeError("\n".join([f"{folder}: {message} {example}", *reasons]))
    return whole.name
