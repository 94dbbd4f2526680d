"""Groups of lines, requests in flight, and lines of output."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from client import Failure, Retries
from lines import Lines, batches, in_order, rows


def test_batches_keep_the_order_and_the_rest() -> None:
    assert list(batches("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(batches("abcd", 2)) == [["a", "b"], ["c", "d"]]
    assert list(batches("", 2)) == []


def test_a_program_that_waits_for_each_reply_gets_it() -> None:
    """Three lines, in two writes; the second follows the replies to the first."""
    reading, writing = os.pipe()
    os.write(writing, b"\xef\xbb\xbfa\r\nb\nc")
    lines = Lines(Path(f"/dev/fd/{reading}"))
    groups = batches(lines, 64, lines.ready)
    replies = in_order(lambda group: [{"texts": group}], groups, 4, Retries(), lines.ready)
    assert next(replies) == [{"texts": ["a", "b"]}]
    os.write(writing, b"\n")
    os.close(writing)
    assert list(replies) == [[{"texts": ["c"]}]]
    os.close(reading)


def test_replies_in_order_with_few_requests_in_flight() -> None:
    running, most, lock = 0, 0, threading.Lock()
    taken: list[int] = []

    def groups() -> Iterator[list[str]]:
        for number in range(12):
            taken.append(number)
            yield [str(number)]

    def ask(group: list[str]) -> list[dict[str, str]]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.03 if int(group[0]) % 3 == 0 else 0.001)  # every third is slow
        with lock:
            running -= 1
        return [{"text": text} for text in group]

    answers = in_order(ask, groups(), 3, Retries())
    first = next(answers)

    assert len(taken) <= 3  # input is read no further than needed
    assert [first, *answers] == [[{"text": str(number)}] for number in range(12)]
    assert most == 3


def test_a_failure_ends_the_waits_of_other_requests() -> None:
    retries = Retries(attempts=100, first_wait=30.0, max_wait=30.0)

    def ask(group: list[str]) -> list[dict[str, str]]:
        if group == ["bad"]:
            raise Failure("refused", 2)
        retries.wait_for_attempt(1)
        return []

    start = time.monotonic()
    with pytest.raises(Failure, match="refused"):
        list(in_order(ask, [["bad"], ["waiting"], ["waiting"]], 3, retries))

    assert time.monotonic() - start < 5


def test_rows_of_one_translation() -> None:
    prediction = {"translation": "Ein Hund", "score": -0.51234}

    assert list(rows(prediction, scores=False, n_best=None, number=7)) == ["Ein Hund"]
    assert list(rows(prediction, scores=True, n_best=None, number=7)) == ["-0.5123\tEin Hund"]


def test_rows_of_several_omit_missing_hypotheses() -> None:
    prediction = {"translations": ["a", "b", "", ""], "scores": [-0.5, -1.0, -1e9, -1e9]}

    assert list(rows(prediction, scores=True, n_best=4, number=3)) == [
        "3\t-0.5000\ta",
        "3\t-1.0000\tb",
    ]
    assert list(rows(prediction, scores=False, n_best=1, number=3)) == ["3\ta"]


def test_a_blank_line_has_one_blank_row() -> None:
    prediction = {"translations": ["", "", ""], "scores": [0.0, 0.0, -1e9]}

    assert list(rows(prediction, scores=False, n_best=3, number=1)) == ["1\t"]
