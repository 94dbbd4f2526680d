"""Writing to a terminal or pipe that is gone."""

from __future__ import annotations

import os
import pty
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

import pytest

from keras_transformer.standard_error import tolerant_stderr
from keras_transformer.training.reporting.progress_bar import progress_bar
from keras_transformer.training.reporting.run_log import print_line

Gone = tuple[TextIO, Callable[[], None]]


@pytest.fixture(params=["pipe", "terminal"])
def gone(request: pytest.FixtureRequest) -> Iterator[Gone]:
    """A stream, and a function that ends its reader: writing then raises EPIPE or EIO."""
    reader, writer = os.pipe() if request.param == "pipe" else pty.openpty()
    with open(writer, "w", encoding="utf-8") as stream:  # closing it flushes once more
        yield stream, lambda: os.close(reader)


def test_messages_without_a_reader_are_dropped(gone: Gone, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, end = gone
    monkeypatch.setattr(sys, "stderr", stream)
    with tolerant_stderr():
        print("a line", file=sys.stderr, flush=True)
        end()
        for _ in range(3):
            print_line("another line")
        os.write(stream.fileno(), b"from a library in C\n")
    assert sys.stderr is stream
    stream.flush()


def test_a_progress_bar_goes_on_without_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pty.openpty()
    with open(writer, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with tolerant_stderr(), progress_bar(10, done=0) as bar:
            assert bar is not None
            bar.update(2, lambda: "loss 3.0")
            os.close(reader)
            bar.update(10, lambda: "loss 2.0")
            print_line("checkpoint at step 10")


def test_without_a_stream_messages_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with tolerant_stderr():
        print("a line", file=sys.stderr, flush=True)
        assert not sys.stderr.isatty()
    assert sys.stderr is None


def test_a_closed_stream_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "w", encoding="utf-8") as stream:
        pass
    monkeypatch.setattr(sys, "stderr", stream)
    with tolerant_stderr():
        print("a line", file=sys.stderr, flush=True)
        assert not sys.stderr.isatty()


def test_a_slow_reader_gets_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    received: list[bytes] = []

    def read() -> None:
        with open(reader, "rb") as file:
            received.append(file.read())

    thread = threading.Thread(target=read)
    with open(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with tolerant_stderr():
            for _ in range(100):
                print("x" * 2000, file=sys.stderr, flush=True)  # more than a pipe holds
            os.set_blocking(writer, True)
            thread.start()
            print("the last line", file=sys.stderr, flush=True)
    thread.join()
    assert received[0].endswith(b"the last line\n")


def test_nested_blocks_restore_the_first_stream() -> None:
    before = sys.stderr
    with tolerant_stderr():
        outer = sys.stderr
        with tolerant_stderr():
            assert sys.stderr is outer
        assert sys.stderr is outer
    assert sys.stderr is before
