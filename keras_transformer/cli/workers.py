"""Several workers of one training on this machine, started together and, if one falls, again."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.system import core_count

GRACE = 20.0
"""Seconds that workers have to save and leave, before they are killed."""
USAGE = 2
"""The status of a mistake of the user, which another start would only repeat."""
_PARENT_GONE = 1  # PR_SET_PDEATHSIG of Linux


def launch(words: Sequence[str], workers: int, restarts: int, run: Path) -> int:
    """Run ``keras_transformer.train`` in several processes, and wait for them.

    Where one of them falls, the others, which wait for it, are stopped, and all begin again
    from the last checkpoint. SIGTERM and SIGINT go to all of them, and end it.

    Args:
        words: The options of each.
        workers: How many, two or more.
        restarts: How often to begin again at most.
        run: The run folder.

    Returns:
        The exit status: 0, or that of the first worker that fell; 128 and its number for a
        signal.
    """
    with _Workers() as team:
        for attempt in range(restarts + 1):
            goes_on = attempt > 0 and (run / "config.yaml").exists() and "--resume" not in words
            team.start([*words, *["--resume"] * goes_on], workers)
            status = team.wait()
            team.end()
            if team.signal:
                return 128 + team.signal
            if status in (0, USAGE):
                return status
            if attempt < restarts:
                print(
                    f"a worker ended with status {status}; all begin again from the last "
                    f"checkpoint ({restarts - attempt - 1} restarts left)",
                    file=sys.stderr,
                    flush=True,
                )
    return status


class _Workers:
    """Processes, and the signals that come for them; none outlives this."""

    def __init__(self) -> None:
        self.signal = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Workers:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._pass_on)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _pass_on(self, number: int, frame: object) -> None:
        self.signal = number
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def start(self, words: Sequence[str], count: int) -> None:
        """Start all of them."""
        places = [f"127.0.0.1:{port}" for port in free_ports(count)]
        self._processes = []
        for index in range(count):
            if not self.signal:
                self._processes.append(_start(words, places, index))

    def wait(self) -> int:
        """Until all have ended well, or one has not: its status."""
        while True:
            found = [process.poll() for process in self._processes]
            fallen = [status if status > 0 else 128 - status for status in found if status]
            if fallen:
                return USAGE if USAGE in fallen else fallen[0]
            if None not in found:
                return 0
            time.sleep(0.1)

    def end(self) -> None:
        """Stop those that still run: they wait for one that is gone, or are about to leave."""
        deadline = time.monotonic() + GRACE
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(words: Sequence[str], places: list[str], index: int) -> subprocess.Popen[bytes]:
    task = {"cluster": {"worker": places}, "task": {"type": "worker", "index": index}}
    share = str(max(core_count() // len(places), 1))
    environment = {"TF_NUM_INTRAOP_THREADS": share, "TF_NUM_INTEROP_THREADS": share}
    return subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.train", *words],
        env=environment | os.environ | {"TF_CONFIG": json.dumps(task)},
        start_new_session=True,  # Ctrl-C comes to this process, which passes it on
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )


def _end_with_parent() -> None:
    """In a worker: SIGTERM comes should the launcher be killed."""
    ctypes.CDLL(None).prctl(_PARENT_GONE, signal.SIGTERM)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
