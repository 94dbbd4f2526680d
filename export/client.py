"""Parts that the clients share: errors, retries, options, exit status."""

from __future__ import annotations

import argparse
import ipaddress
import os
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

Result = TypeVar("Result")


class Failure(Exception):
    """A request that failed for good.

    Args:
        message: One line for the user.
        status: Exit status of the program: 1 the server failed, 2 the request was wrong.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class TransientFailure(Exception):
    """A request that may succeed later.

    Args:
        message: One line for the user.
        retry_after: Seconds that the server asks to wait.
    """

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass
class Retries:
    """Exponential backoff with jitter.

    The wait doubles each time. Half of it is random, so that clients that failed at the same
    time do not retry at the same time.

    Args:
        attempts: Greatest number of attempts for one request.
        first_wait: Seconds before the second attempt.
        max_wait: Longest wait in seconds, whatever the server asks for.
    """

    attempts: int = 5
    first_wait: float = 0.25
    max_wait: float = 20.0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def call(self, send: Callable[[], Result]) -> Result:
        """Call ``send`` until it succeeds.

        Args:
            send: Raises TransientFailure if another attempt may succeed.

        Raises:
            Failure: All attempts failed.
        """
        attempt = 1
        while True:
            try:
                return send()
            except TransientFailure as error:
                if not self.wait_for_attempt(attempt, error.retry_after):
                    raise Failure(f"{error} ({attempt} tries)") from None
            attempt += 1

    def wait_for_attempt(self, attempt: int, at_least: float = 0.0) -> bool:
        """Wait before the next attempt.

        Args:
            attempt: Number of attempts made, from 1.
            at_least: Seconds that the server asks for.

        Returns:
            Whether to try again.
        """
        if attempt >= self.attempts or self._stopped.is_set():
            return False
        bound = self.first_wait * 2 ** (attempt - 1)
        wait = max(bound / 2 + random.uniform(0, bound / 2), at_least)
        return not self._stopped.wait(min(wait, self.max_wait))

    def stop(self) -> None:
        """End all waits: the results are no longer needed."""
        self._stopped.set()


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the option for the model's name, required because servers do not list their models."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        required=True,
        help="name of the model in the server's configuration, usually that of the folder that it "
        "was exported into",
    )


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the option for the address of a REST server."""
    parser.add_argument(
        "--url", type=http_url, default="http://127.0.0.1:8501", help="server (%(default)s)"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a client that translates lines."""
    add = parser.add_argument
    add("text", nargs="*", help="sentences; default: lines of standard input")
    add("--file", metavar="FILE", type=Path, help="translate the lines of a UTF-8 file")
    add_model(parser)
    add("--signature", help="signature to call (translate, or nbest with --n-best)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=positive, help="version of the model; default: newest")
    which.add_argument("--label", help="label of a version, such as stable")
    add("--scores", action="store_true", help="put the score and a tab before the translation")
    add("--n-best", type=positive, metavar="N", help="print the N best of each line, numbered")
    add("--batch", type=positive, default=16, help="sentences per request (%(default)s)")
    add("--in-flight", type=positive, default=4, help="requests at the same time (%(default)s)")
    add("--attempts", type=positive, default=5, help="attempts per request (%(default)s)")
    add(
        "--timeout",
        type=positive_number,
        default=35.0,
        metavar="SECONDS",
        help="longest wait for one reply (%(default)s); REST servers give up after 30",
    )


def http_url(text: str) -> str:
    """Check the address of a REST server, for argparse."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is no number, or brackets surround no address
        valid = False
    if not valid:
        raise argparse.ArgumentTypeError(f"expected http://HOST:PORT, got {text!r}")
    return text


def positive(text: str) -> int:
    """Parse a whole number above 0, for argparse."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return number


def positive_number(text: str) -> float:
    """Parse a number above 0, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number


def is_local(host: str) -> bool:
    """Return whether a host is this machine by its address or name; no proxy leads there."""
    if host.rstrip(".").lower().rpartition(".")[2] == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # another name
        return False
    return address.is_loopback or address.is_unspecified


def without_password(url: str) -> str:
    """Return the address of a proxy as messages may show it."""
    scheme, separator, rest = url.rpartition("//")
    return scheme + separator + rest.rpartition("@")[2]


def predict_path(model: str, version: int | None = None, label: str | None = None) -> str:
    """Return the REST path of ``:predict`` for a model, or for a version of it."""
    path = f"/v1/models/{quote(model, safe='')}"
    if version is not None:
        path += f"/versions/{version}"
    elif label is not None:
        path += f"/labels/{quote(label, safe='')}"
    return f"{path}:predict"


def exit_status(program: Callable[[], int | None]) -> int:
    """Run a program and report a failure in one line.

    Args:
        program: Returns its exit status, None for 0.

    Returns:
        Its status, or 1: the server failed, 2: wrong request, 130: interrupted, 141: output closed.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # UTF-8 in any locale; names of files that are not UTF-8 are escaped.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        status = program()
        sys.stdout.flush()
    except Failure as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Python flushes once more at exit; send that to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status or 0
