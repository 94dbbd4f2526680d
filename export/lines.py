"""What the two clients share: lines in, batches in flight, tries again, lines out."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Prediction = Mapping[str, Any]
Predict = Callable[[str, Sequence[str]], Sequence[Prediction]]


class Failure(Exception):
    """The server did not do what was asked; the message says what and what to do.

    Args:
        message: One line for the user.
        status: Exit status of the program: 1 the server failed, 2 the request was wrong.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Retries:
    """How often and after what waits a request is sent again.

    The wait doubles each time and half of it is random, so that clients which failed
    together do not come back together.

    Args:
        attempts: How often a request is sent at most.
        first: Seconds before the second try.
        most: Longest wait in seconds, whatever the server asks for.
    """

    attempts: int = 5
    first: float = 0.25
    most: float = 20.0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def again(self, attempt: int, at_least: float = 0.0) -> bool:
        """Wait before the next try.

        Args:
            attempt: Number of tries made, from 1.
            at_least: Seconds that the server asks for.

        Returns:
            Whether to try once more.
        """
        if attempt >= self.attempts or self._stopped.is_set():
            return False
        bound = self.first * 2 ** (attempt - 1)
        wait = max(bound / 2 + random.uniform(0, bound / 2), at_least)
        return not self._stopped.wait(min(wait, self.most))

    def stop(self) -> None:
        """End all waits: nobody wants the answers any more."""
        self._stopped.set()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that both clients have."""
    add = parser.add_argument
    add("text", nargs="*", help="sentences; without any, lines of standard input")
    add("--file", metavar="FILE", type=Path, help="translate the lines of a UTF-8 file")
    add_model(parser)
    add("--signature", help="signature to call (translate, or nbest with --n-best)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=positive, help="version of the model; else the newest")
    which.add_argument("--label", help="label of a version, such as stable")
    add("--scores", action="store_true", help="put the score and a tab before the translation")
    add("--n-best", type=positive, metavar="N", help="print the N best of each line, numbered")
    add("--batch", type=positive, default=16, help="sentences in one request (%(default)s)")
    add("--in-flight", type=positive, default=4, help="requests at a time (%(default)s)")
    add("--attempts", type=positive, default=5, help="times a request is sent (%(default)s)")
    add(
        "--timeout",
        type=positive_number,
        default=35.0,
        metavar="SECONDS",
        help="longest wait for one answer (%(default)s); REST servers give up after 30",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the model; a server cannot be asked for the names it has."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        required=True,
        help="name of the model, as in the server's configuration; by default the last part of "
        "the folder that it was exported into",
    )


def http_url(text: str) -> str:
    """The address of a REST server, for argparse."""
    try:
        parts = urlsplit(text)
        well = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, or brackets around what is no address
        well = False
    if not well:
        raise argparse.ArgumentTypeError(f"expected http://HOST:PORT, got {text!r}")
    return text


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return number


def positive_number(text: str) -> float:
    """A number above 0, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number


def read(options: argparse.Namespace) -> Iterator[str]:
    """The lines to translate: arguments, a file, or standard input, without their ends.

    Raises:
        Failure: A file cannot be read, or a line is not UTF-8.
    """
    if options.text:
        yield from options.text
        return
    name = str(options.file) if options.file else "standard input"
    try:
        with (
            options.file.open("rb")
            if options.file
            else contextlib.nullcontext(sys.stdin.buffer) as stream
        ):
            for number, line in enumerate(stream, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise Failure(f"{name}, line {number}: expected UTF-8, {error}", 2) from None
    except OSError as error:
        raise Failure(f"{name}: {error.strerror}", 2) from None


def batches(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Group lines by ``size``; the last group may be smaller."""
    group: list[str] = []
    for line in lines:
        group.append(line)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def in_order(
    ask: Callable[[list[str]], Sequence[Prediction]],
    groups: Iterable[list[str]],
    in_flight: int,
    retries: Retries,
) -> Iterator[Sequence[Prediction]]:
    """Ask for several groups at a time; the answers come in the order of the groups.

    Args:
        ask: Called in threads.
        groups: Read no further than needed.
        in_flight: Most requests that are under way together.
        retries: Stopped when one request has failed for good, so that the others end soon.
    """
    waiting: deque[Future[Sequence[Prediction]]] = deque()
    with ThreadPoolExecutor(in_flight) as pool:
        try:
            for group in groups:
                waiting.append(pool.submit(ask, group))
                if len(waiting) >= in_flight:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            retries.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def rows(prediction: Prediction, scores: bool, n_best: int | None, number: int) -> Iterator[str]:
    """The lines of output for one line of input.

    Args:
        prediction: Outputs of the signature for one sentence.
        scores: Put the score before the text.
        n_best: How many alternatives, each after the line's number; None for one without.
        number: Number of the input line, from 1.
    """
    if n_best is None:
        found = [(prediction["translation"], prediction["score"])]
    else:
        pairs = list(zip(prediction["translations"], prediction["scores"], strict=True))
        # Where the search found fewer, `nbest` fills up with "".
        found = pairs[:1] + [pair for pair in pairs[1:n_best] if pair[0]]
    for text, score in found:
        columns = [] if n_best is None else [str(number)]
        columns += [f"{score:.4f}"] if scores else []
        yield "\t".join([*columns, text])


def translate(options: argparse.Namespace, predict: Predict, retries: Retries) -> None:
    """Translate all lines and print what comes, in order.

    Args:
        options: From ``add_options``.
        predict: ``(signature, texts)`` to one prediction for each text; called in threads.
        retries: Those of ``predict``.

    Raises:
        Failure: With the lines that it happened to.
    """
    signature = options.signature or ("nbest" if options.n_best else "translate")
    talking = not options.text and not options.file and sys.stdin.isatty()
    size, in_flight = (1, 1) if talking else (options.batch, options.in_flight)
    number = 1
    try:
        groups = batches(read(options), size)
        for found in in_order(lambda texts: predict(signature, texts), groups, in_flight, retries):
            for prediction in found:
                if options.n_best and number == 1:
                    _compare(options.n_best, len(prediction["translations"]))
                for text in rows(prediction, options.scores, options.n_best, number):
                    print(text, flush=talking)
                number += 1
    except KeyError as error:
        wanted = "one with translations and scores" if options.n_best else "translation and score"
        raise Failure(
            f"signature {signature} gives no {error}; expected {wanted}: see --signature", 2
        ) from None
    except Failure as error:
        raise Failure(f"after {number - 1} lines: {error}", error.status) from None


def _compare(wanted: int, given: int) -> None:
    """Say it where a model gives fewer translations than are wanted."""
    if given < wanted:
        print(
            f"the model gives at most {given} translations of a line, not {wanted}; "
            "their number is chosen at the export (--search.n_best)",
            file=sys.stderr,
        )


def exit_status(program: Callable[[], None]) -> int:
    """Run a program and say what went wrong in one line.

    Returns:
        0 done, 1 the server failed, 2 a wrong request, 130 interrupted, 141 nobody reads.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # whatever the locale says
            stream.reconfigure(encoding="utf-8")
    try:
        program()
        sys.stdout.flush()
    except Failure as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Python flushes once more at its end; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0
