from __future__ import annotations

import functools
import io
import logging
import sys
from collections.abc import Callable

import pytest

from keras_transformer.training.reporting import progress_bar as module
from keras_transformer.training.reporting.progress_bar import progress_bar
from keras_transformer.training.reporting.run_log import print_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Return a function that makes standard error a terminal: pytest replaces it after fixtures."""

    def begin() -> Terminal:
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        return screen

    return begin


def visible_lines(text: str) -> list[str]:
    """Return the final lines of a terminal; a carriage return overwrites a line."""
    lines = []
    for line in text.split("\n"):
        row = ""
        for part in line.split("\r"):
            row = part + row[len(part) :]
        lines.append(row.rstrip())
    return lines


def test_lines_stand_above_the_bar_and_never_in_it(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    with progress_bar(10, done=2) as one:
        assert one is not None
        one.update(5, lambda: "loss 3.0")
        print_line("checkpoint at step 5")
        logging.getLogger("a library").warning("a sentence was cut")
        one.update(10, lambda: "loss 2.0")
    print_line("done")
    first, warning, last, done, end = visible_lines(screen.getvalue())
    assert (first, warning, done, end) == (
        "checkpoint at step 5",
        "a sentence was cut",
        "done",
        "",
    )
    assert last.startswith("100%|")
    assert last.endswith("| 10/10, loss 2.0")


def test_metrics_are_refreshed_at_intervals(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal()
    clock = [50.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    asked = []
    with progress_bar(1000, done=0) as one:
        assert one is not None
        for step in range(1, 41):
            clock[0] += 0.1  # four seconds in all
            one.update(step, lambda step=step: str(asked.append(step)))
    assert 7 <= len(asked) <= 9
    assert asked[0] == 1


@pytest.mark.parametrize("silent", [False, True])
def test_no_bar_without_a_terminal_or_on_other_workers(
    silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if silent else io.StringIO())
    with progress_bar(10, done=0, silent=silent) as one:
        assert one is None
    assert sys.stderr.getvalue() == ""


def test_no_bar_where_tqdm_is_disabled(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = terminal()
    monkeypatch.setattr(module, "tqdm", functools.partial(module.tqdm, disable=True))
    with progress_bar(10, done=0) as one:
        assert one is None  # so that lines are printed
    assert screen.getvalue() == ""
