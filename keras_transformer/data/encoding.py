"""Text to ids by the thousands of pairs: in this process, or over several for a large corpus.

The others are not made by ``multiprocessing``: forked, they would inherit the locks of
TensorFlow's threads in whatever state those are; spawned, they would run the user's own
script again. They are Python processes that know this package alone, get text at their
standard input and give ids at their standard output. They end when that input does, so
none outlives the process that it works for, however that one ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import IO, Any, cast

from keras_transformer.data.corpus import Pair, chunks
from keras_transformer.data.store import Sentences
from keras_transformer.data.tokenizer import SentencePiece, Tokenizer
from keras_transformer.errors import UserError

FEW = 10
"""Chunks that are encoded in this process before others are started: a second's work."""

Encoded = tuple[list[Pair], Sentences, Sentences]
"""Pairs, the ids of their sources, those of their targets."""

_START = """
import sys
sys.path[:] = sys.argv[1:]
from keras_transformer.data.encoding import work
work()
"""


class EncodingError(UserError):
    """A process that encodes text has ended before its time."""


def encoded(pairs: Iterable[Pair], tokenizer: Tokenizer, workers: int) -> Iterator[Encoded]:
    """Encode a stream of pairs; what comes out does not depend on ``workers``.

    Args:
        pairs: Streamed, a few chunks ahead.
        tokenizer: Of both sides.
        workers: Processes; with 1, or where there are few pairs, this one does it alone.

    Raises:
        EncodingError: One of the processes was killed.
    """
    stream = chunks(pairs)
    for chunk in islice(stream, FEW if workers > 1 else None):
        yield chunk, *_encode(tokenizer, _texts(chunk))
    first = next(stream, None)
    if first is None:
        return
    with _Workers(tokenizer, workers) as others:
        yield from others.encoded(chain((first,), stream))


def _texts(chunk: list[Pair]) -> tuple[list[str], list[str]]:
    return [pair.source for pair in chunk], [pair.target for pair in chunk]


def _encode(
    tokenizer: Tokenizer, texts: tuple[Sequence[str], Sequence[str]]
) -> tuple[Sentences, Sentences]:
    return (
        Sentences.of(tokenizer.source.encode(texts[0])),
        Sentences.of(tokenizer.target.encode(texts[1])),
    )


class _Workers:
    """Processes that encode; leaving the context ends them."""

    def __init__(self, tokenizer: Tokenizer, count: int) -> None:
        self._count = count
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count)
        self._processes: list[subprocess.Popen[bytes]] = []
        protos = tokenizer.source.proto, tokenizer.target.proto
        try:
            for _ in range(count):
                process = subprocess.Popen(
                    [sys.executable, "-c", _START, *sys.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C is for this process; it ends the others
                )
                self._processes.append(process)
                self._idle.put(process)
            for process in self._processes:
                _send(process, protos)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *failure: object) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        # Only now do the threads that wait for an answer get to an end.
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            with contextlib.suppress(OSError):  # what was not sent any more
                process.communicate()

    def encoded(self, stream: Iterable[list[Pair]]) -> Iterator[Encoded]:
        """In the order of ``stream``, of which a few chunks are under way at a time."""
        under_way: deque[tuple[list[Pair], Future[tuple[Sentences, Sentences]]]] = deque()
        for chunk in stream:
            under_way.append((chunk, self._threads.submit(self._ask, _texts(chunk))))
            if len(under_way) > 2 * self._count:
                first, ids = under_way.popleft()
                yield first, *ids.result()
        for first, ids in under_way:
            yield first, *ids.result()

    def _ask(self, texts: tuple[list[str], list[str]]) -> tuple[Sentences, Sentences]:
        process = self._idle.get()
        try:
            _send(process, texts)
            return _receive(process)
        finally:  # a process that has ended too, so that no thread waits for one in vain
            self._idle.put(process)


def _send(process: subprocess.Popen[bytes], value: object) -> None:
    pipe = cast(IO[bytes], process.stdin)
    try:
        pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
        pipe.flush()
    except OSError as error:
        raise _ended(process) from error


def _receive(process: subprocess.Popen[bytes]) -> Any:
    try:
        return pickle.load(cast(IO[bytes], process.stdout))
    except (EOFError, pickle.UnpicklingError, OSError) as error:
        raise _ended(process) from error


def _ended(process: subprocess.Popen[bytes]) -> EncodingError:
    status = process.wait()
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return EncodingError(
        f"a process that encodes text {how}, perhaps for want of memory: nothing is prepared; "
        "begin again"
    )


def work() -> None:
    """What the other processes do: answer texts with their ids until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may be written between the answers
    texts = sys.stdin.buffer
    # The other end is gone, wherever that finds this one: in between, reading, or writing.
    with contextlib.suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        source, target = map(SentencePiece, pickle.load(texts))
        tokenizer = Tokenizer(source, target)
        while True:
            pickle.dump(_encode(tokenizer, pickle.load(texts)), answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    os._exit(0)  # Python would try once more to write what nobody reads
