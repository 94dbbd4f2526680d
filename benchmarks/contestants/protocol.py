"""Protocol of a contestant: a line of JSON in, a line of JSON out. Standard library only.

A request has ``batches``, lists of sentences as lists of ids, or ``lines``, text. The answer has
``outputs`` (one for each sentence, in order, ids or text), the ``seconds`` that they took, the
seconds that processors ``worked`` for them, and the greatest ``memory`` of the process so far,
MiB. A first line with memory and versions comes when all is loaded.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any


def serve(
    answer: Callable[[dict[str, Any]], list[Any]], replies: int, packages: Sequence[str]
) -> None:
    """Answer requests until there are no more.

    Args:
        answer: From a request to its outputs; this is what is timed.
        replies: Where to write, from ``quiet``.
        packages: Whose versions matter.
    """
    versions = {name: importlib.metadata.version(name) for name in packages}
    with os.fdopen(replies, "w", encoding="utf-8") as file:
        print(json.dumps({"memory": peak(), "versions": versions}), file=file, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            started, worked = time.perf_counter(), time.process_time()
            outputs = answer(request)
            seconds, worked = time.perf_counter() - started, time.process_time() - worked
            reply = {"outputs": outputs, "seconds": seconds, "worked": worked, "memory": peak()}
            print(json.dumps(reply), file=file, flush=True)


def quiet() -> int:
    """Send the output of libraries to standard error; return the original standard output."""
    replies = os.dup(1)
    os.dup2(2, 1)
    return replies


def peak() -> float:
    """Return the peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def threads(workers: int) -> int:
    """Return the threads per operation for a number of parallel batches."""
    return max(len(os.sched_getaffinity(0)) // workers, 1)


def grouped(lengths: list[int], tokens: int) -> list[list[int]]:
    """Yield indices in groups of similar length, longest first.

    Args:
        lengths: Of each sentence.
        tokens: Most tokens of a group, padding counted.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    groups = []
    while order:
        size = max(tokens // lengths[order[0]], 1)
        groups.append(order[:size])
        order = order[size:]
    return groups


class Rounds:
    """Protocol for a training loop: it pauses after each round until the next request.

    A request has ``steps``, how often the loop may go round. The answer's ``outputs`` are the
    ``tokens`` of these steps, and the ``positions`` that were computed for them, padding
    counted.

    Args:
        replies: Where to write, from ``quiet``.
        packages: Whose versions matter.
    """

    def __init__(self, replies: int, packages: Sequence[str]) -> None:
        self._file = os.fdopen(replies, "w", encoding="utf-8")
        versions = {name: importlib.metadata.version(name) for name in packages}
        print(json.dumps({"memory": peak(), "versions": versions}), file=self._file, flush=True)
        self._wait()

    def count(self, tokens: int, positions: int) -> None:
        """Count a step; end the process after the last request."""
        self._steps -= 1
        self._tokens += tokens
        self._positions += positions
        if self._steps:
            return
        reply = {
            "outputs": {"tokens": self._tokens, "positions": self._positions},
            "seconds": time.perf_counter() - self._started,
            "worked": time.process_time() - self._worked,
            "memory": peak(),
        }
        print(json.dumps(reply), file=self._file, flush=True)
        self._wait()

    def _wait(self) -> None:
        line = sys.stdin.readline()
        if not line:
            self._file.close()
            # Threads of the libraries may still be preparing batches.
            os._exit(0)
        self._steps: int = json.loads(line)["steps"]
        self._tokens = self._positions = 0
        self._started, self._worked = time.perf_counter(), time.process_time()
