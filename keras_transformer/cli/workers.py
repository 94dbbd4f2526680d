"""Launcher of several training workers on one machine, with restarts after a failure."""

from __future__ import annotations

import contextlib
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

from keras_transformer.stop_signals import (
    REPEATED_SIGNALS,
    end_with_parent,
    restore_handlers,
    stop_signals,
)
from keras_transformer.system import core_count

GRACE = 20.0
"""Seconds that workers have to save and exit before they are killed."""
USAGE = 2
"""Exit status of a user's mistake, which a restart would only repeat."""


def launch(
    words: Sequence[str], workers: int, restarts: int, run: Path, gpus: Sequence[str] = ()
) -> int:
    """Run ``keras_transformer.train`` in several processes and wait for them.

    If a worker fails, the others are stopped, since they wait for it, and all restart from the
    last checkpoint. Stop signals are passed on to all workers and end the launch.

    Args:
        words: The options of each worker.
        workers: Number of workers, two or more.
        restarts: Greatest number of restarts.
        run: The run folder.
        gpus: CUDA_VISIBLE_DEVICES of each worker; empty: that of this process for all.

    Returns:
        The exit status: 0, or that of the first failed worker; 128 plus the number of a signal.
    """
    with _Workers() as team:
        for attempt in range(restarts + 1):
            resume = attempt > 0 and (run / "config.yaml").exists() and "--resume" not in words
            team.start(_resuming(words) if resume else words, workers, gpus)
            status = team.wait()
            team.end()
            if team.signal:
                return 128 + team.signal
            if status in (0, USAGE):
                return status
            if attempt < restarts:
                print(
                    f"a worker ended with status {status}; all restart from the last "
                    f"checkpoint ({restarts - attempt - 1} restarts left)",
                    file=sys.stderr,
                    flush=True,
                )
    return status


class _Workers:
    """The processes of a launch and their signals; no process outlives this context."""

    def __init__(self) -> None:
        self.signal = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Workers:
        for number in stop_signals():
            self._before[number] = signal.signal(number, self._pass_on)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        restore_handlers(self._before)

    def _pass_on(self, number: int, frame: object) -> None:
        if self.signal and signal.Signals(number).name in REPEATED_SIGNALS:
            return
        self.signal = number
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def start(self, words: Sequence[str], count: int, gpus: Sequence[str]) -> None:
        """Start all workers."""
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        self._processes = []
        for index in range(count):
            if not self.signal:
                self._processes.append(
                    _start(words, addresses, index, gpus[index] if gpus else None)
                )

    def wait(self) -> int:
        """Wait until all workers are done, or one has failed; return its status."""
        while True:
            found = [process.poll() for process in self._processes]
            failed = [status if status > 0 else 128 - status for status in found if status]
            if failed:
                return USAGE if USAGE in failed else failed[0]
            if None not in found:
                return 0
            time.sleep(0.1)

    def end(self) -> None:
        """Stop the remaining workers, which wait for a lost one or are about to exit."""
        deadline = time.monotonic() + GRACE
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _resuming(words: Sequence[str]) -> list[str]:
    """Return the options that continue the run which ``words`` have started."""
    parts = iter(words)
    kept = []
    for word in parts:
        if word == "--init_from":
            next(parts, None)  # its value
        elif not word.startswith("--init_from="):
            kept.append(word)
    return [*kept, "--resume"]


def _start(
    words: Sequence[str], addresses: list[str], index: int, gpus: str | None
) -> subprocess.Popen[bytes]:
    task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    threads = str(max(core_count() // len(addresses), 1))
    environment = {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads}
    own = {"TF_CONFIG": json.dumps(task)}
    if gpus is not None:
        own["CUDA_VISIBLE_DEVICES"] = gpus
    return subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.train", *words],
        env=environment | os.environ | own,
        start_new_session=True,  # Ctrl-C reaches the launcher, which passes it on
        preexec_fn=end_with_parent if sys.platform == "linux" else None,
    )


def free_ports(count: int) -> list[int]:
    """Return free ports of this machine."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
