"""Graceful stop on a signal: preemption, Ctrl-C, a closed terminal, a limit on processor time."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from keras_transformer.stop_signals import REPEATED_SIGNALS, restore_handlers, stop_signals
from keras_transformer.training.state import TrainingState


class Stopped(SystemExit):
    """End of the training by a signal; the exit status is 128 plus its number.

    Args:
        number: The signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


def check_signal(state: TrainingState) -> None:
    """Stop the training if a signal has arrived.

    Raises:
        Stopped: A signal has arrived.
    """
    if state.signal:
        raise Stopped(state.signal)


@contextlib.contextmanager
def deferred_signals(state: TrainingState) -> Iterator[None]:
    """Store the first stop signal in ``state.signal`` until the training can stop.

    If all steps are saved, a signal stops the training at once. A second SIGTERM or SIGINT goes
    to the handler from before the block. A second SIGHUP or SIGXCPU does not, since these arrive
    more than once by themselves. A signal that the process was started to ignore stays ignored.

    Raises:
        Stopped: A signal has arrived, and all steps are saved.
    """
    previous: dict[int, Any] = {number: signal.getsignal(number) for number in stop_signals()}

    def store(number: int, frame: object) -> None:
        first = not state.signal
        state.signal = state.signal or number
        if not _repeats(number):
            signal.signal(number, previous[number] or signal.SIG_DFL)
        if first and not state.unsaved:
            check_signal(state)

    try:
        for number in previous:
            signal.signal(number, store)
    except ValueError:  # not in the main thread
        previous = {}
    try:
        yield
    finally:
        if state.signal and previous and _repeats(state.signal):
            signal.signal(state.signal, signal.SIG_IGN)
        restore_handlers(previous)


def _repeats(number: int) -> bool:
    return signal.Signals(number).name in REPEATED_SIGNALS
