"""The progress of a training on one line of a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

REFRESH = 0.5
"""Seconds between two looks at the numbers, which take longer than moving the bar."""


class ProgressBar:
    """A line that moves with the steps; what else is written meanwhile goes above it.

    Args:
        total: Steps in all.
        done: Steps taken before.
    """

    def __init__(self, total: int, done: int) -> None:
        self._bar = tqdm(
            total=total,
            initial=done,
            file=sys.stderr,
            dynamic_ncols=True,
            bar_format="{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}",
        )
        self._looked = -REFRESH

    def moved_to(self, step: int, numbers: Callable[[], str]) -> None:
        """Show a step.

        Args:
            step: Steps taken.
            numbers: Gives what stands behind the bar; called now and then.
        """
        now = time.monotonic()
        if now - self._looked >= REFRESH or step >= self._bar.total:
            self._looked = now
            self._bar.set_postfix_str(numbers(), refresh=False)
        self._bar.update(step - self._bar.n)

    def close(self) -> None:
        """Leave the line as it is, and go on below it."""
        self._bar.close()


@contextlib.contextmanager
def shown(total: int, done: int, silent: bool = False) -> Iterator[ProgressBar | None]:
    """A bar on standard error, where that is a terminal.

    Args:
        total: Steps in all.
        done: Steps taken before.
        silent: Show none in any case.
    """
    if silent or not sys.stderr.isatty():
        yield None
        return
    with logging_redirect_tqdm():  # warnings too go above it
        bar = ProgressBar(total, done)
        try:
            yield bar
        finally:
            bar.close()
