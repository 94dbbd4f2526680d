from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from keras_transformer.training.state import TrainingState
from keras_transformer.training.stopping import Stopped, check_signal, deferred_signals


@pytest.fixture
def state() -> Iterator[TrainingState]:
    """State of a training; the handlers of both signals are restored afterwards."""
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    yield TrainingState(SimpleNamespace())
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def interrupted(state: TrainingState, *numbers: int) -> int:
    """Send signals while they are deferred; return the state's signal after the first."""
    first, *more = numbers
    with deferred_signals(state):
        signal.raise_signal(first)
        found = state.signal
        for number in more:
            signal.raise_signal(number)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_until_the_steps_are_saved(state: TrainingState, number: int) -> None:
    state.unsaved = True
    assert interrupted(state, number) == number
    with pytest.raises(Stopped) as stopped:
        check_signal(state)
    assert stopped.value.code == 128 + number
    assert stopped.value.name == signal.Signals(number).name


def test_without_unsaved_steps_a_signal_stops_at_once(state: TrainingState) -> None:
    with pytest.raises(Stopped):
        interrupted(state, signal.SIGTERM)


def test_a_second_signal_interrupts_at_once(state: TrainingState) -> None:
    state.unsaved = True
    with pytest.raises(KeyboardInterrupt):
        interrupted(state, signal.SIGINT, signal.SIGINT)


def test_without_a_signal_nothing_stops(state: TrainingState) -> None:
    with deferred_signals(state):
        check_signal(state)


def test_in_another_thread_signals_stay_as_they_are(state: TrainingState) -> None:
    found = []

    def train() -> None:
        with deferred_signals(state):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]
