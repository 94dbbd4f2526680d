"""Several workers of one training on this machine, started together and, if one falls, again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_transformer.cores import cores

GRACE = 20.0
"""Seconds that workers have to save and leave, before they are killed."""
USAGE = 2
"""The status of a mistake of the user, which another start would only repeat."""


def launch(words: Sequence[str], workers: int, restarts: int, run: Path) -> int:
    """Run ``keras_transformer.train`` in several processes, and wait for them.

    Where one of them falls, the others, which wait for it, are stopped, and all begin again
    from the last checkpoint.

    Args:
        words: The options of each.
        workers: How many, two or more.
        restarts: How often to begin again at most.
        run: The run folder.

    Returns:
        The exit status: 0, or that of the first worker that fell; 128 and its number for a
        signal.
    """
    for attempt in range(restarts + 1):
        goes_on = attempt > 0 and (run / "config.yaml").exists() and "--resume" not in words
        status = _once([*words, *["--resume"] * goes_on], workers)
        if status in (0, USAGE) or status in (128 + signal.SIGTERM, 128 + signal.SIGINT):
            return status
        if attempt < restarts:
            print(
                f"a worker ended with status {status}; all begin again from the last checkpoint "
                f"({restarts - attempt - 1} restarts left)",
                file=sys.stderr,
                flush=True,
            )
    return status


def _once(words: Sequence[str], workers: int) -> int:
    ports = free_ports(workers)
    places = [f"127.0.0.1:{port}" for port in ports]
    processes = [_start(words, places, index) for index in range(workers)]
    with _passing_on(processes):
        status = _wait(processes)
    _end(processes)
    return status


def _start(words: Sequence[str], places: list[str], index: int) -> subprocess.Popen[bytes]:
    task = {"cluster": {"worker": places}, "task": {"type": "worker", "index": index}}
    share = str(max(cores() // len(places), 1))
    environment = {"TF_NUM_INTRAOP_THREADS": share, "TF_NUM_INTEROP_THREADS": share}
    return subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.train", *words],
        env=environment | os.environ | {"TF_CONFIG": json.dumps(task)},
        start_new_session=True,  # Ctrl-C comes to this process, which passes it on
    )


def _wait(processes: list[subprocess.Popen[bytes]]) -> int:
    """Until all have ended well, or one has not: its status."""
    while True:
        found = [process.poll() for process in processes]
        fallen = [status for status in found if status]
        if fallen:
            return fallen[0] if fallen[0] > 0 else 128 - fallen[0]
        if None not in found:
            return 0
        time.sleep(0.1)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Stop those that still run: they wait for one that is gone, or are about to leave too."""
    deadline = time.monotonic() + GRACE
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _passing_on(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Within, SIGTERM and SIGINT go to the workers."""

    def pass_on(number: int, frame: object) -> None:
        for process in processes:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
