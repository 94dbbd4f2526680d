"""The load test against a server of known speed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import load_test
import pytest


def slow_down(rest: Any, seconds: float) -> None:
    well = rest.answer

    def answer(body: dict[str, Any]) -> Any:
        time.sleep(seconds)
        return well(body)

    rest.answer = answer


def run(rest: Any, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = load_test.main(["--url", rest.url, "--model", "m", "--json", *arguments])
    return status, json.loads(capsys.readouterr().out)


def test_percentiles_by_hand() -> None:
    values = [float(value) for value in range(10, 0, -1)]

    found = [load_test.percentile(values, percent) for percent in (1, 50, 95, 99, 100)]
    assert found == [1, 5, 10, 10, 10]
    assert load_test.percentile([7.0], 50) == 7


def test_closed_loop(rest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(rest, 0.05)

    status, figures = run(rest, capsys, "--connections", "2", "--seconds", "0.6", "--batch", "3")

    assert status == 0
    assert figures["errors"] == {}
    # Two connections of 50 ms each: at most 12 begun in 0.6 s each, and many fewer if busy.
    assert 4 <= figures["answered"] <= 24
    assert figures["answered"] == len(rest.requests)
    assert 50 <= figures["p50 ms"] <= figures["p95 ms"] <= figures["p99 ms"]
    assert figures["p99 ms"] <= figures["longest ms"]
    assert figures["sentences/s"] == pytest.approx(3 * figures["requests/s"], rel=0.05)
    path, body = rest.requests[0]
    assert path == "/v1/models/m:predict"
    assert body["signature_name"] == "translate"
    lengths = {len(row["text"]) for _, body in rest.requests for row in body["instances"]}
    assert max(lengths) > 10 * min(lengths)


def test_no_proxy_is_used(
    rest: Any,
    closed_port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port}")

    status, figures = run(rest, capsys, "--connections", "1", "--seconds", "0.05")

    assert (status, figures["errors"]) == (0, {})


def test_open_loop_shows_the_queue(rest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(rest, 0.1)  # one connection can do 10 a second; 20 a second are due for 0.5 s

    status, figures = run(rest, capsys, "--connections", "1", "--seconds", "0.5", "--rate", "20")

    assert status == 0
    assert figures["answered"] == 10
    # The tenth is due after 0.45 s and answered after 1 s at the earliest.
    assert figures["longest ms"] >= 550
    assert figures["seconds"] >= 1


def test_open_loop_waits_for_the_time_of_each_request(
    rest: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.monotonic()

    _, figures = run(rest, capsys, "--connections", "4", "--seconds", "0.5", "--rate", "10")

    assert time.monotonic() - start >= 0.4
    assert figures["answered"] == 5


def test_errors_are_counted_by_status(
    rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.fail(2, reply(503, {"error": "queue is full"}))

    status, figures = run(rest, capsys, "--connections", "1", "--seconds", "0.3")

    assert status == 1
    assert figures["errors"] == {"503": 2}
    assert figures["answered"] == len(rest.requests) - 2


@pytest.mark.parametrize(("status", "why"), [(404, "no model 'm'"), (400, "no signature")])
def test_refusal_of_the_first_request_ends_the_test(
    rest: Any, reply: Any, capsys: pytest.CaptureFixture[str], status: int, why: str
) -> None:
    rest.answer = lambda body: reply(status, {"error": why})

    words = ["--url", rest.url, "--model", "m", "--connections", "3", "--seconds", "60"]
    assert load_test.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: /v1/models/m:predict: {status} ")
    assert why in captured.err
    assert len(rest.requests) <= 3  # one for each connection


def test_later_refusals_are_counted(
    rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    well = rest.answer
    rest.answer = lambda body: (
        reply(400, {"error": "odd"}) if len(rest.requests) == 2 else well(body)
    )

    status, figures = run(rest, capsys, "--connections", "1", "--seconds", "0.2")

    assert status == 1
    assert figures["errors"] == {"400": 1}


def test_no_server(closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{closed_port}"

    words = ["--url", url, "--model", "m", "--connections", "1", "--seconds", "0.1"]
    assert load_test.main(words) == 1
    text = capsys.readouterr().out
    assert "ConnectionRefusedError" in text
    assert "p99 ms" in text


def test_sentences_of_a_file(rest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.txt"
    path.write_text("我\n\nzwei\n", encoding="utf-8")

    run(rest, capsys, "--connections", "1", "--seconds", "0.2", "--file", str(path), "--batch", "9")

    texts = {row["text"] for _, body in rest.requests for row in body["instances"]}
    assert texts == {"我", "zwei"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "localhost:8501"], "expected http://HOST:PORT, got 'localhost:8501'"),
        (["--file", "absent.txt"], "error: absent.txt: No such file or directory\n"),
        (["--file", os.devnull], "expected lines of text, found none"),
        (["--rate", "0"], "expected a number above 0"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = load_test.main(["--model", "m", *arguments])
    except SystemExit as error:  # argparse
        status = int(error.code or 0)

    assert status == 2
    assert message in capsys.readouterr().err
