"""What the clients share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from lines import Failure, Retries, batches, in_order, rows


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits that are asked for, none of which is waited."""
    asked: list[float] = []

    def wait(self: threading.Event, timeout: float) -> bool:
        asked.append(timeout)
        return False

    monkeypatch.setattr(threading.Event, "wait", wait)
    return asked


def test_waits_double_and_half_of_each_is_random(waits: list[float]) -> None:
    retries = Retries(attempts=100, first=1.0, most=20.0)

    for _ in range(50):
        for attempt in (1, 2, 3, 7):
            assert retries.again(attempt)

    for index, bound in enumerate((1.0, 2.0, 4.0)):
        seen = waits[index::4]
        assert bound / 2 <= min(seen) < max(seen) <= bound
    assert set(waits[3::4]) == {20.0}  # 64 would be too long


def test_the_server_may_ask_for_a_longer_wait_up_to_a_limit(waits: list[float]) -> None:
    retries = Retries(attempts=3, first=1.0, most=20.0)

    assert retries.again(1, at_least=7.0)
    assert retries.again(1, at_least=3600.0)

    assert waits == [7.0, 20.0]


def test_tries_are_counted_and_can_be_stopped() -> None:
    retries = Retries(attempts=2, first=0.001)

    assert retries.again(1)
    assert not retries.again(2)
    retries.stop()
    assert not retries.again(1)


def test_batches_keep_the_order_and_the_rest() -> None:
    assert list(batches("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(batches("abcd", 2)) == [["a", "b"], ["c", "d"]]
    assert list(batches("", 2)) == []


def test_answers_come_in_order_and_few_requests_are_under_way() -> None:
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


def test_one_failure_ends_the_waits_of_the_others() -> None:
    retries = Retries(attempts=100, first=30.0, most=30.0)

    def ask(group: list[str]) -> list[dict[str, str]]:
        if group == ["bad"]:
            raise Failure("refused", 2)
        retries.again(1)
        return []

    start = time.monotonic()
    with pytest.raises(Failure, match="refused"):
        list(in_order(ask, [["bad"], ["waiting"], ["waiting"]], 3, retries))

    assert time.monotonic() - start < 5


def test_rows_of_one_translation() -> None:
    prediction = {"translation": "Ein Hund", "score": -0.51234}

    assert list(rows(prediction, scores=False, n_best=None, number=7)) == ["Ein Hund"]
    assert list(rows(prediction, scores=True, n_best=None, number=7)) == ["-0.5123\tEin Hund"]


def test_rows_of_several_leave_out_empty_places() -> None:
    prediction = {"translations": ["a", "b", "", ""], "scores": [-0.5, -1.0, -1e9, -1e9]}

    assert list(rows(prediction, scores=True, n_best=4, number=3)) == [
        "3\t-0.5000\ta",
        "3\t-1.0000\tb",
    ]
    assert list(rows(prediction, scores=False, n_best=1, number=3)) == ["3\ta"]


def test_a_blank_line_has_one_blank_row() -> None:
    prediction = {"translations": ["", "", ""], "scores": [0.0, 0.0, -1e9]}

    assert list(rows(prediction, scores=False, n_best=3, number=1)) == ["1\t"]
