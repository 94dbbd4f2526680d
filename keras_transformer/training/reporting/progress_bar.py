"""Progress bar of a training run on one line of a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

REFRESH_SECONDS = 0.5
"""Interval between two updates of the metrics, which take longer than moving the bar."""


class ProgressBar:
    """Bar that counts steps, below all other lines.

    Args:
        total: Steps of the whole run.
        done: Steps taken before a resume.
    """

    def __init__(self, total: int, done: int) -> None:
        self._bar = tqdm(
            total=total,
            initial=done,
            file=sys.stderr,
            dynamic_ncols=True,
            bar_format="{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}",
        )
        self._refreshed = -REFRESH_SECONDS

    def update(self, step: int, metrics: Callable[[], str]) -> None:
        """Move the bar to a step.

        Args:
            step: Steps taken.
            metrics: Returns the text after the bar; called every `REFRESH_SECONDS`.
        """
        now = time.monotonic()
        if now - self._refreshed >= REFRESH_SECONDS or step >= self._bar.total:
            self._refreshed = now
            self._bar.set_postfix_str(metrics(), refresh=False)
        self._bar.update(step - self._bar.n)

    @property
    def shown(self) -> bool:
        """Return True if the bar is drawn; ``TQDM_DISABLE`` hides it."""
        return not self._bar.disable

    def close(self) -> None:
        """Leave the bar on the screen and continue below it."""
        self._bar.close()


@contextlib.contextmanager
def progress_bar(total: int, done: int, silent: bool = False) -> Iterator[ProgressBar | None]:
    """Show a progress bar on standard error; yield None if none is shown.

    There is none where standard error is no terminal, and where tqdm is disabled.

    Args:
        total: Steps of the whole run.
        done: Steps taken before a resume.
        silent: Never show a bar.
    """
    if silent or not sys.stderr.isatty():
        yield None
        return
    with logging_redirect_tqdm():  # warnings of libraries are printed above the bar too
        bar = ProgressBar(total, done)
        try:
            yield bar if bar.shown else None
        finally:
            bar.close()
