"""Processes of the endurance test: start, kill with all descendants, memory; needs Linux."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.soak.trials import TrialError

ROOT = Path(__file__).resolve().parents[2]
POLL = 0.002
"""Seconds between two looks at a process or a folder."""
LONGEST = 600.0
"""Seconds after which a process that does not end is a failure."""

_MARK = "KERAS_TRANSFORMER_SOAK"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_running: dict[str, Process] = {}
_ending = threading.Event()


class Process:
    """A command of the package in a process of its own.

    All its descendants have a mark in their environment, which they cannot lose by a new session
    or a new parent.

    Args:
        module: Such as "train".
        words: Its options.
    """

    def __init__(self, module: str, words: Sequence[str]) -> None:
        if _ending.is_set():
            raise TrialError("interrupted")
        self.mark = uuid.uuid4().hex
        environment = os.environ | {
            _MARK: self.mark,
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",  # the comparison is bitwise
        }
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"keras_transformer.{module}", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        _running[self.mark] = self

    def _read(self) -> None:
        if self._process.stderr is not None:
            for line in self._process.stderr:
                self._lines.append(line)

    @property
    def log(self) -> str:
        """Standard error so far."""
        return "".join(self._lines)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def status(self) -> int | None:
        """Return the exit status as a shell reports it, 128 plus the number of a signal."""
        status = self._process.poll()
        return status if status is None or status >= 0 else 128 - status

    def wait(self, seconds: float = LONGEST) -> int:
        """Wait for the process and its descendants; return the exit status.

        Raises:
            TrialError: They do not end in time.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            status = self.status()
            if status is not None and not members(self.mark):
                self._reader.join(10)
                _running.pop(self.mark, None)
                return status
            time.sleep(0.05)
        left = members(self.mark)
        self.kill()
        raise TrialError(
            f"still running after {seconds:.0f} s: processes {left}\n{self.log[-1500:]}"
        )

    def wait_until(self, ready: Callable[[], bool], seconds: float = LONGEST) -> bool:
        """Wait until ``ready`` returns true; return false if the process ends before.

        Raises:
            TrialError: Neither happens in time.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if ready():
                return True
            time.sleep(POLL)
        self.kill()
        raise TrialError(f"nothing happened in {seconds:.0f} s\n{self.log[-1500:]}")

    def send(self, number: int) -> None:
        """Send a signal to the process itself."""
        self._process.send_signal(number)

    def kill(self, victims: Sequence[int] | None = None) -> None:
        """Kill processes without a chance to react.

        Args:
            victims: Their ids; by default the process and all its descendants, until none is left.
        """
        if victims is not None:
            for pid in victims:
                _kill(pid)
            return
        deadline = time.monotonic() + 30
        self._process.kill()  # first, since a launcher would restart the others
        while (found := members(self.mark)) and time.monotonic() < deadline:
            for pid in found:
                _kill(pid)
            time.sleep(POLL)
        self._process.wait()
        self._reader.join(10)
        _running.pop(self.mark, None)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_all() -> None:
    """Kill all processes that still run, and start no more."""
    _ending.set()
    for process in list(_running.values()):
        process.kill()


def members(mark: str) -> list[int]:
    """Return the ids of the living processes with a mark, oldest first."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):  # ended, or another user's
                # A process that has ended but was not waited for has an empty environment.
                if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
    return sorted(found)


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def complete(module: str, words: Sequence[str], seconds: float = LONGEST) -> Process:
    """Run a command to its end.

    Raises:
        TrialError: It fails.
    """
    process = Process(module, words)
    status = process.wait(seconds)
    if status:
        raise TrialError(f"{module} ended with status {status}:\n{process.log[-1500:]}")
    return process
