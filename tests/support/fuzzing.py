"""Random inputs: number of examples, time limit, and what a command may answer."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from keras_transformer.errors import UserError

SECONDS = 20
"""Longest time for one example, on a busy machine."""


def sizes(quick: int, slow: int = 2_000) -> pytest.MarkDecorator:
    """Parametrize a test by ``count``, its number of examples: few, and many in the slow suite."""
    return pytest.mark.parametrize("count", [quick, pytest.param(slow, marks=pytest.mark.slow)])


def fuzz(count: int, **strategies: Any) -> Callable[[Callable[..., None]], None]:
    """Decorate a check to run it at once on ``count`` random inputs, the same in each run."""

    def decorate(check: Callable[..., None]) -> None:
        limits = settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        limits(given(**strategies)(check))()

    return decorate


@contextmanager
def time_limit(seconds: int = SECONDS) -> Iterator[None]:
    """Raise TimeoutError in a block that has not ended in time."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(function: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result and "", or None and the message of a user's error, which is one line."""
    with time_limit():
        try:
            return function(), ""
        except UserError as error:
            message = str(error)
    assert message
    assert len(message.splitlines()) == 1, message
    return None, message
