"""Retries and paths, shared by the clients."""

from __future__ import annotations

import threading

import pytest
from client import Failure, Retries, TransientFailure, is_local, predict_path, without_password


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Requested waits; none takes time."""
    asked: list[float] = []

    def wait(self: threading.Event, timeout: float) -> bool:
        asked.append(timeout)
        return False

    monkeypatch.setattr(threading.Event, "wait", wait)
    return asked


def test_waits_double_and_half_of_each_is_random(waits: list[float]) -> None:
    retries = Retries(attempts=100, first_wait=1.0, max_wait=20.0)

    for _ in range(50):
        for attempt in (1, 2, 3, 7):
            assert retries.wait_for_attempt(attempt)

    for index, bound in enumerate((1.0, 2.0, 4.0)):
        seen = waits[index::4]
        assert bound / 2 <= min(seen) < max(seen) <= bound
    assert set(waits[3::4]) == {20.0}  # 64 would be too long


def test_server_may_request_a_longer_wait_up_to_a_limit(waits: list[float]) -> None:
    retries = Retries(attempts=3, first_wait=1.0, max_wait=20.0)

    assert retries.wait_for_attempt(1, at_least=7.0)
    assert retries.wait_for_attempt(1, at_least=3600.0)

    assert waits == [7.0, 20.0]


def test_attempts_are_limited_and_can_be_stopped() -> None:
    retries = Retries(attempts=2, first_wait=0.001)

    assert retries.wait_for_attempt(1)
    assert not retries.wait_for_attempt(2)
    retries.stop()
    assert not retries.wait_for_attempt(1)


def test_call_repeats_transient_failures_only(waits: list[float]) -> None:
    outcomes: list[Exception | str] = [
        TransientFailure("busy", 7.0),
        TransientFailure("late"),
        "ok",
    ]

    def send() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert Retries(attempts=3, first_wait=1.0).call(send) == "ok"
    assert waits[0] == 7.0
    assert 1.0 <= waits[1] <= 2.0
    outcomes += [TransientFailure("busy"), TransientFailure("late"), "ok"]
    with pytest.raises(Failure, match=r"^late \(2 tries\)$"):
        Retries(attempts=2).call(send)
    outcomes[:] = [Failure("wrong", 2), "ok"]
    with pytest.raises(Failure, match="wrong"):
        Retries(attempts=2).call(send)
    assert outcomes == ["ok"]


def test_path_of_predict() -> None:
    assert predict_path("en/de") == "/v1/models/en%2Fde:predict"
    assert predict_path("m", version=3) == "/v1/models/m/versions/3:predict"
    assert predict_path("m", label="a b") == "/v1/models/m/labels/a%20b:predict"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LocalHost.", "a.localhost", "0.0.0.0"]
)
def test_hosts_that_are_this_machine(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host", ["128.0.0.1", "192.168.0.1", "localhost.example.org", "notlocalhost", "::2", ""]
)
def test_other_hosts(host: str) -> None:
    assert not is_local(host)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@proxy:3128", "http://proxy:3128"),
        ("http://proxy:3128/", "http://proxy:3128/"),
        ("me:se@cret@proxy:3128", "proxy:3128"),
    ],
)
def test_proxies_in_messages(url: str, shown: str) -> None:
    assert without_password(url) == shown
