"""Random inputs: number of examples, time limit and messages of one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support import damage


def sizes(quick: int, slow: int = 600) -> pytest.MarkDecorator:
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


def attempt(function: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result and "", or None and the message of a user's error, which is one line.

    Raises:
        TimeoutError: It has not ended in time.
    """
    with damage.time_limit():
        result, message = damage.attempt(function)
    assert len(message.splitlines()) <= 1, message
    return result, message
