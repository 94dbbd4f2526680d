"""Options of the server, and checks of the model's folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from keras_transformer.devices import has_gpu
from keras_transformer.errors import UserError
from keras_transformer.field_types import format_value
from keras_transformer.serving.settings import MAX_VERSION
from keras_transformer.serving.version_folder import MODEL_NAME, is_model_name, version_number
from keras_transformer.system import core_count
from keras_transformer.validation import MAX_PROCESSES, between, check_fields, option

SAVED_MODEL = "saved_model.pb"
MAX_KIB = 1 << 20
"""Greatest limit of texts, in KiB, and of bodies, which are held in memory: 1 GiB."""
MAX_ROWS = 1_000_000
"""Greatest limit of rows and connections."""
SECONDS = between(0.001, 86_400)
# Options that concern the folder or the batches of a local model.
_ONLY_LOCAL = (
    "name",
    "versions",
    "max_batch_size",
    "batch_timeout_ms",
    "batches",
    "threads",
    "max_queue",
)


class ServeError(UserError):
    """An invalid folder, name or limit."""


@dataclass(frozen=True)
class Settings:
    """Options of the server.

    Raises:
        UserError: A value is of the wrong type or out of range.
    """

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 admits other machines, without any access control."""
    port: int = option(8501, between(0, 65_535))
    """Port to listen on; 0 chooses a free one."""
    name: str = ""
    """Name of the model in URLs; default: the last part of DIR."""
    versions: str = "latest"
    """Versions to serve: latest, all, or numbers separated by commas."""
    poll_s: float = option(1.0, SECONDS)
    """Seconds between checks of DIR for new versions."""
    max_batch_size: int = option(64, between(1, MAX_ROWS))
    """Greatest number of rows in a batch; a larger request is divided into chunks."""
    batch_timeout_ms: float = option(0.0, between(0, 3_600_000))
    """Time that an incomplete batch waits for more rows."""
    batches: int = option(0, between(0, MAX_PROCESSES))
    """Number of batches that run at the same time; 0: one per processor core, one with a GPU."""
    threads: int = option(1, between(1, MAX_PROCESSES))
    """Threads per operation; 1 is fastest if batches keep all cores busy."""
    max_queue: int = option(4096, between(1, MAX_ROWS))
    """Greatest number of waiting rows; further requests get 503."""
    max_text_kb: int = option(512, between(1, MAX_KIB))
    """Longest text in KiB of UTF-8; a longer one gets 413."""
    max_body_mb: float = option(16.0, between(0.001, MAX_KIB // 1024))
    """Largest request body in MiB; a larger one gets 413."""
    timeout_s: float = option(30.0, SECONDS)
    """Time limit of a request: 504 for a late reply, 408 for a slow body."""
    grace_s: float = option(30.0, between(0, 86_400))
    """Time to finish accepted requests after SIGTERM or Ctrl-C."""
    max_connections: int = option(512, between(1, MAX_ROWS))
    """Greatest number of connections; further ones get 503."""
    upstream: str = ""
    """Be a gateway in front of this TensorFlow Serving, http://HOST:PORT; DIR is left out."""
    upstream_connections: int = option(64, between(1, MAX_ROWS))
    """Greatest number of connections to the upstream; further requests wait for one."""
    connect_s: float = option(3.0, SECONDS)
    """Time limit of a connection to the upstream."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.name and not is_model_name(self.name):
            raise ServeError(f"name: expected {MODEL_NAME}, got {format_value(self.name)}")
        Policy.parse(self.versions)
        if self.upstream:
            Address.parse(self.upstream)
            self._refuse_ignored()

    def _refuse_ignored(self) -> None:
        """Refuse options that a gateway ignores."""
        for item in fields(self):
            if item.name in _ONLY_LOCAL and getattr(self, item.name) != item.default:
                raise ServeError(f"{item.name}: has no effect with --upstream; leave it out")

    @property
    def max_text_bytes(self) -> int:
        """Return the limit of a text in bytes."""
        return self.max_text_kb * 1024

    @property
    def max_body_bytes(self) -> int:
        """Return the limit of a body in bytes."""
        return int(self.max_body_mb * 2**20)

    @property
    def batches_at_once(self) -> int:
        """Return ``batches``, or for 0 the number of cores, 1 with a GPU."""
        return self.batches or (1 if has_gpu() else core_count())


@dataclass(frozen=True)
class Address:
    """Address of an HTTP server.

    Attributes:
        host: Name or IP address, without brackets.
        port: Port.
        tls: Whether it is reached by HTTPS.
    """

    host: str
    port: int
    tls: bool = False

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse ``http://HOST:PORT`` or ``https://HOST:PORT``.

        Raises:
            ServeError: The text has another form.
        """
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:  # the port is no number, or brackets surround no address
            parts, port = urlsplit(""), None
        bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not bare:
            without_password = format_value(
                re.sub(r"//.*@", "//...@", text)
            )  # it stays out of logs
            raise ServeError(f"upstream: expected http://HOST:PORT, got {without_password}")
        tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if tls else 80), tls)

    @property
    def header(self) -> bytes:
        """Return the value of the header Host."""
        host = self.host if self.host.isascii() else self.host.encode("idna").decode()
        return f"[{host}]:{self.port}".encode() if ":" in host else f"{host}:{self.port}".encode()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}"


@dataclass(frozen=True)
class Policy:
    """Selection of the versions to serve.

    Attributes:
        newest: Serve only the highest version that loads.
        numbers: Serve only these; empty: all.
    """

    newest: bool = False
    numbers: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Parse ``latest``, ``all`` or numbers such as ``3,4``.

        Raises:
            ServeError: The text has another form.
        """
        if text in ("latest", "all"):
            return cls(newest=text == "latest")
        if not re.fullmatch(r"\d{1,19}(,\d{1,19})*", text, re.ASCII):
            raise ServeError(
                f"versions: expected latest, all or numbers such as 3,4, got {format_value(text)}"
            )
        return cls(numbers=frozenset(int(number) for number in text.split(",")))

    def choose(self, found: Sequence[int]) -> list[int]:
        """Return the selected ones of the present versions, highest first."""
        return sorted(self.numbers.intersection(found) if self.numbers else found, reverse=True)


def parse_labels(pairs: Sequence[str]) -> dict[str, int]:
    """Parse version labels such as ``stable=3``.

    Raises:
        ServeError: A text has another form, or a label is given twice.
    """
    labels: dict[str, int] = {}
    for pair in pairs:
        found = re.fullmatch(r"([^/:=\s]+)=(\d{1,19})", pair, re.ASCII)
        if not found:
            raise ServeError(
                f"label: expected a name and a version such as stable=3, got {format_value(pair)}"
            )
        if found[1] in labels:
            raise ServeError(f"label: {format_value(found[1])} is given twice")
        labels[found[1]] = int(found[2])
    return labels


def find_versions(folder: Path) -> tuple[dict[int, Path], dict[str, str]]:
    """Find the version folders of a model.

    Returns:
        Version folders by number, and by name the reason why another numbered folder is ignored.
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
    """Check that a folder holds versions of a model.

    Returns:
        The folder's name, the default name of the model.

    Raises:
        ServeError: It holds none; the message says what was found.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing there"
        raise ServeError(f"{folder}: expected a folder with versions of a model, found {found}")
    full = folder.resolve()
    if (folder / SAVED_MODEL).is_file():
        raise ServeError(
            f"{folder}: this is one version of a model (it holds {SAVED_MODEL}); name the folder "
            f"that holds the versions, {full.parent}"
        )
    versions, ignored = find_versions(folder)
    if not versions:
        reasons = [f"{folder / name}: {reason}" for name, reason in ignored.items()]
        message = "there is no version of a model in it; expected a folder such as"
        example = f"{folder / '1' / SAVED_MODEL}"
        raise ServeError("\n".join([f"{folder}: {message} {example}", *reasons]))
    return full.name
