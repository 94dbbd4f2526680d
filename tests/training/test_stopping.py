from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from keras_transformer.training.state import TrainingState
from keras_transformer.training.stopping import Stopped, check_signal, deferred_signals

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU)


@pytest.fixture
def state() -> Iterator[TrainingState]:
    """State of a training; the handlers of all signals are restored afterwards."""
    usual = [signal.SIG_DFL, signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL]
    # A shell may have started the tests with some of them ignored.
    before = [
        signal.signal(number, handler) for number, handler in zip(NUMBERS, usual, strict=True)
    ]
    yield TrainingState(SimpleNamespace())
    found = [signal.signal(number, old) for number, old in zip(NUMBERS, before, strict=True)]
    assert found[:2] == usual[:2]


def interrupted(state: TrainingState, *numbers: int) -> int:
    """Send signals while they are deferred; return the state's signal after the first."""
    first, *more = numbers
    with deferred_signals(state):
        signal.raise_signal(first)
        found = state.signal
        for number in more:
            signal.raise_signal(number)
    return found


@pytest.mark.parametrize("number", NUMBERS)
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


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGXCPU])
def test_a_closed_terminal_signals_twice(state: TrainingState, number: int) -> None:
    state.unsaved = True
    assert interrupted(state, number, number, number) == number
    with pytest.raises(Stopped):
        check_signal(state)
    signal.raise_signal(number)  # while the process exits


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGXCPU])
def test_without_a_stop_all_handlers_are_restored(state: TrainingState, number: int) -> None:
    with deferred_signals(state):
        assert signal.getsignal(number) != signal.SIG_DFL
    assert signal.getsignal(number) == signal.SIG_DFL


def test_the_status_is_that_of_the_first_signal(state: TrainingState) -> None:
    state.unsaved = True
    interrupted(state, signal.SIGHUP, signal.SIGTERM)
    assert state.signal == signal.SIGHUP


def test_a_second_signal_does_not_disturb_the_end(state: TrainingState) -> None:
    ended = []
    with deferred_signals(state):
        try:
            signal.raise_signal(signal.SIGHUP)
        except Stopped:
            signal.raise_signal(signal.SIGHUP)  # while the end is logged
            ended.append(True)
    assert ended == [True]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_that_was_ignored_before_stays_ignored(number: int) -> None:
    before = signal.signal(number, signal.SIG_IGN)  # as by nohup
    try:
        state = TrainingState(SimpleNamespace())
        with deferred_signals(state):
            signal.raise_signal(number)
        assert state.signal == 0
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


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
