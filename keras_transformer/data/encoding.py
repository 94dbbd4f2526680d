"""Encoding of sentence pairs, in worker processes for a large corpus.

The workers are not ``multiprocessing`` processes: forked ones would inherit the locks of
TensorFlow's threads in an arbitrary state, spawned ones would run the user's script again.
They are Python processes that import only this package, read pickled texts from standard input
and write pickled ids to standard output. They end when their input ends, so they never outlive
the process that started them, even if it is killed.
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

from keras_transformer.data.pairs import Pair, blocks
from keras_transformer.data.store import EncodedSentences
from keras_transformer.data.tokenizer import KINDS, Tokenizer
from keras_transformer.errors import UserError

BLOCKS_BEFORE_WORKERS = 10
"""Blocks encoded in this process before workers are started, in about a second."""

EncodedBlock = tuple[list[Pair], EncodedSentences, EncodedSentences]
"""Pairs, their encoded sources and their encoded targets."""

_WORKER_SCRIPT = """
import sys
sys.path[:] = sys.argv[1:]
from keras_transformer.data.encoding import serve_requests
serve_requests()
"""


class EncodingError(UserError):
    """A worker process that ended too early."""


def encode_pairs(
    pairs: Iterable[Pair], tokenizer: Tokenizer, workers: int
) -> Iterator[EncodedBlock]:
    """Encode a stream of pairs block by block, with the same result for any ``workers``.

    Args:
        pairs: The pairs; they are read a few blocks ahead.
        tokenizer: The tokenizer of both sides.
        workers: Number of worker processes; with 1, or for a small corpus, none is started.

    Raises:
        EncodingError: A worker was killed.
    """
    stream = blocks(pairs)
    for block in islice(stream, BLOCKS_BEFORE_WORKERS if workers > 1 else None):
        yield block, *_encode(tokenizer, _texts(block))
    first = next(stream, None)
    if first is None:
        return
    with _WorkerPool(tokenizer, workers) as pool:
        yield from pool.encode(chain((first,), stream))


def _texts(block: list[Pair]) -> tuple[list[str], list[str]]:
    return [pair.source for pair in block], [pair.target for pair in block]


def _encode(
    tokenizer: Tokenizer, texts: tuple[Sequence[str], Sequence[str]]
) -> tuple[EncodedSentences, EncodedSentences]:
    return (
        EncodedSentences.from_lists(tokenizer.source.encode(texts[0])),
        EncodedSentences.from_lists(tokenizer.target.encode(texts[1])),
    )


class _WorkerPool:
    """Processes that encode blocks; they end with the context."""

    def __init__(self, tokenizer: Tokenizer, count: int) -> None:
        self._count = count
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count)
        self._processes: list[subprocess.Popen[bytes]] = []
        sides = [(side.suffix, side.serialized) for side in (tokenizer.source, tokenizer.target)]
        try:
            for _ in range(count):
                process = subprocess.Popen(
                    [sys.executable, "-c", _WORKER_SCRIPT, *sys.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C goes to this process, which ends the workers
                )
                self._processes.append(process)
                self._idle.put(process)
            for process in self._processes:
                _send(process, sides)
        except BaseException:
            self._shut_down()
            raise

    def __enter__(self) -> _WorkerPool:
        return self

    def __exit__(self, *failure: object) -> None:
        self._shut_down()

    def _shut_down(self) -> None:
        for process in self._processes:
            process.kill()
        # Threads that wait for a result end only after the processes are killed.
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            with contextlib.suppress(OSError):  # unsent input of a killed process
                process.communicate()

    def encode(self, stream: Iterable[list[Pair]]) -> Iterator[EncodedBlock]:
        """Encode blocks in the order of ``stream``, a few of them at a time."""
        pending: deque[tuple[list[Pair], Future[tuple[EncodedSentences, EncodedSentences]]]]
        pending = deque()
        for block in stream:
            pending.append((block, self._threads.submit(self._request, _texts(block))))
            if len(pending) > 2 * self._count:
                oldest, ids = pending.popleft()
                yield oldest, *ids.result()
        for oldest, ids in pending:
            yield oldest, *ids.result()

    def _request(
        self, texts: tuple[list[str], list[str]]
    ) -> tuple[EncodedSentences, EncodedSentences]:
        process = self._idle.get()
        try:
            _send(process, texts)
            return _receive(process)
        finally:  # put back even a dead process, so that no thread waits forever for an idle one
            self._idle.put(process)


def _send(process: subprocess.Popen[bytes], value: object) -> None:
    pipe = cast(IO[bytes], process.stdin)
    try:
        pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
        pipe.flush()
    except OSError as error:
        raise _worker_error(process) from error


def _receive(process: subprocess.Popen[bytes]) -> Any:
    try:
        return pickle.load(cast(IO[bytes], process.stdout))
    except (EOFError, pickle.UnpicklingError, OSError) as error:
        raise _worker_error(process) from error


def _worker_error(process: subprocess.Popen[bytes]) -> EncodingError:
    status = process.wait()
    reason = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return EncodingError(
        f"a process that encodes text {reason}, perhaps out of memory: nothing is prepared; "
        "start again"
    )


def serve_requests() -> None:
    """Run a worker: read texts and write their ids until the input ends."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output goes to standard error, not between the results
    requests = sys.stdin.buffer
    # The parent may end at any time.
    with contextlib.suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        source, target = (
            KINDS[kind].read(data, "tokenizer") for kind, data in pickle.load(requests)
        )
        tokenizer = Tokenizer(source, target)
        while True:
            encoded = _encode(tokenizer, pickle.load(requests))
            pickle.dump(encoded, results, pickle.HIGHEST_PROTOCOL)
            results.flush()
    os._exit(0)  # a normal exit would flush to the closed pipe
