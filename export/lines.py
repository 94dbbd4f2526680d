"""Translation of lines: reading, batches in flight, printing in order."""

from __future__ import annotations

import argparse
import contextlib
import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from client import Failure, Retries

Prediction = Mapping[str, Any]
Predict = Callable[[str, Sequence[str]], Sequence[Prediction]]

PATIENCE = 0.02
"""Seconds without input after which no more lines come at once."""


class Lines:
    """Lines of a UTF-8 file, or of standard input, without their ends, as soon as they arrive.

    Args:
        path: The file; None: standard input.

    Raises:
        Failure: While iterating: the file cannot be read, or a line is not UTF-8.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._name = str(path) if path else "standard input"
        self._file: Any = None
        self._complete: deque[bytes] = deque()
        self._rest: list[bytes] = []
        self._ended = not path and sys.stdin is None  # closed

    def __iter__(self) -> Iterator[str]:
        number = 0
        try:
            with self._open() as self._file:
                while self._complete or not self._ended:
                    if not self._complete:
                        self._read()
                        continue
                    number += 1
                    line = self._complete.popleft()
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                    yield text.removesuffix("\r")
        except UnicodeDecodeError as error:
            raise Failure(f"{self._name}, line {number}: expected UTF-8, {error}", 2) from None
        except OSError as error:
            raise Failure(f"{self._name}: {error.strerror}", 2) from None

    def _open(self) -> contextlib.AbstractContextManager[Any]:
        if self._path:
            return self._path.open("rb")
        return contextlib.nullcontext(sys.stdin.buffer if sys.stdin else None)

    def ready(self) -> bool:
        """Return whether a line is there at once; another program may wait before the next."""
        while not (self._complete or self._ended) and self._has_input():
            self._read()
        return bool(self._complete)

    def _has_input(self) -> bool:
        try:
            return bool(select.select([self._file], [], [], PATIENCE)[0])
        except (OSError, ValueError):  # no descriptor, or none that can be asked
            return True

    def _read(self) -> None:
        data = self._file.read1(2**16)
        self._ended = not data
        self._rest.append(data)
        if self._ended or b"\n" in data:
            *lines, last = b"".join(self._rest).split(b"\n")
            self._complete += lines + [last] * (self._ended and bool(last))
            self._rest = [last]


def read(path: Path | None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, or of standard input, without their ends.

    Raises:
        Failure: The file cannot be read, or a line is not UTF-8.
    """
    return iter(Lines(path))


def batches(
    lines: Iterable[str], size: int, ready: Callable[[], bool] = lambda: True
) -> Iterator[list[str]]:
    """Group lines by ``size``; a group is smaller at the end, and where no line is ready."""
    group: list[str] = []
    for line in lines:
        group.append(line)
        if len(group) == size or not ready():
            yield group
            group = []
    if group:
        yield group


def in_order(
    ask: Callable[[list[str]], Sequence[Prediction]],
    groups: Iterable[list[str]],
    in_flight: int,
    retries: Retries,
    ready: Callable[[], bool] = lambda: True,
) -> Iterator[Sequence[Prediction]]:
    """Yield the replies for groups in order, with several requests at the same time.

    Args:
        ask: Called in threads.
        groups: Read no further than needed.
        in_flight: Greatest number of requests at the same time.
        retries: Stopped after a failure, so that the other requests end soon.
        ready: Returns whether the next group comes at once; if not, replies are awaited first.
    """
    waiting: deque[Future[Sequence[Prediction]]] = deque()
    with ThreadPoolExecutor(in_flight) as pool:
        try:
            for group in groups:
                waiting.append(pool.submit(ask, group))
                while waiting and (len(waiting) >= in_flight or not ready()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            retries.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def rows(prediction: Prediction, scores: bool, n_best: int | None, number: int) -> Iterator[str]:
    """Yield the lines of output for one line of input.

    Args:
        prediction: Outputs of the signature for one sentence.
        scores: Put the score before the text.
        n_best: Greatest number of translations, each after the line's number; None for one
            translation without a number.
        number: Number of the input line, from 1.
    """
    if n_best is None:
        hypotheses = [(prediction["translation"], prediction["score"])]
    else:
        pairs = list(zip(prediction["translations"], prediction["scores"], strict=True))
        # `nbest` fills missing hypotheses with "".
        hypotheses = pairs[:1] + [pair for pair in pairs[1:n_best] if pair[0]]
    for text, score in hypotheses:
        columns = [] if n_best is None else [str(number)]
        columns += [f"{score:.4f}"] if scores else []
        yield "\t".join([*columns, text])


def translate(options: argparse.Namespace, predict: Predict, retries: Retries) -> None:
    """Translate all lines and print the translations in order.

    Args:
        options: From ``client.add_options``.
        predict: ``(signature, texts)`` to one prediction per text; called in threads.
        retries: The retries of ``predict``.

    Raises:
        Failure: A request failed; the message tells how many lines were printed.
    """
    signature = options.signature or ("nbest" if options.n_best else "translate")
    interactive = not options.text and not options.file and sys.stdin.isatty()
    size, in_flight = (1, 1) if interactive else (options.batch, options.in_flight)
    number = 1
    try:
        lines = Lines(options.file)
        ready = (lambda: True) if options.text else lines.ready
        groups = batches(options.text or lines, size, ready)
        replies = in_order(
            lambda texts: predict(signature, texts), groups, in_flight, retries, ready
        )
        for reply in replies:
            for prediction in reply:
                if options.n_best and number == 1:
                    _warn_if_fewer(options.n_best, len(prediction["translations"]))
                for text in rows(prediction, options.scores, options.n_best, number):
                    print(text)
                number += 1
            sys.stdout.flush()  # a program may wait for it
    except KeyError as error:
        expected = "translations and scores" if options.n_best else "translation and score"
        raise Failure(
            f"signature {signature} has no output {error}; expected one with {expected}: "
            "see --signature",
            2,
        ) from None
    except Failure as error:
        raise Failure(f"after {number - 1} lines: {error}", error.status) from None


def _warn_if_fewer(wanted: int, exported: int) -> None:
    """Warn if the model returns fewer translations than wanted."""
    if exported < wanted:
        print(
            f"the model returns at most {exported} translations per line, not {wanted}; "
            "their number is chosen at the export (--search.n_best)",
            file=sys.stderr,
        )
