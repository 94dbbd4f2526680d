"""Leaving in good order: SIGTERM, as preemption sends it, and Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


class Stopped(SystemExit):
    """A signal has ended the training; the exit status is 128 and its number.

    Args:
        number: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


class StopRequest:
    """Remembers a signal until the training comes to a place where it can stop.

    A second one ends the program as it would without this.

    Attributes:
        signal: Its number; 0 before it comes.
        at_once: Whether there is nothing to save, so that nothing need be waited for.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.at_once = True

    def check(self) -> None:
        """Stop here if a signal has come.

        Raises:
            Stopped: It has.
        """
        if self.signal:
            raise Stopped(self.signal)

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Within, SIGTERM and SIGINT are remembered instead of ending the program."""
        before: dict[int, Any] = {
            number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)
        }

        def remember(number: int, frame: object) -> None:
            self.signal = number
            signal.signal(number, before[number])
            if self.at_once:
                self.check()

        try:
            for number in before:
                signal.signal(number, remember)
        except ValueError:  # not the main thread, which alone hears signals
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
