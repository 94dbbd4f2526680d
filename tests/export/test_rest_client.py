"""The REST client against a scripted server."""

from __future__ import annotations

import email.utils
import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import rest_client
from client import Failure, Retries
from rest_client import RestClient


class Impatient(Retries):
    """Retries at once and records the requested waits."""

    def __init__(self, attempts: int) -> None:
        super().__init__(attempts)
        self.asked: list[float] = []

    def wait_for_attempt(self, attempt: int, at_least: float = 0.0) -> bool:
        self.asked.append(at_least)
        return attempt < self.attempts


def run(server: Any, *arguments: str) -> int:
    return rest_client.main(["--url", server.url, "--model", "en-de", *arguments])


def test_lines_come_back_in_order(
    rest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"line {number}" for number in range(50)]
    path = tmp_path / "in.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    well = rest.answer

    def answer(body: dict[str, Any]) -> Any:
        if body["instances"][0]["text"] in ("line 0", "line 12"):
            time.sleep(0.1)  # later batches finish first
        return well(body)

    rest.answer = answer

    assert run(rest, "--file", str(path), "--batch", "4", "--in-flight", "3") == 0
    assert capsys.readouterr().out.splitlines() == [line[::-1] for line in lines]
    sizes = sorted(len(body["instances"]) for _, body in rest.requests)
    assert sizes == [2] + [4] * 12


def test_blank_lines_and_any_script(
    rest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes("\ufeffein\r\n\n  \n我爱你\ne\u0301\U0001f600\n\u2028x\n".encode())

    assert run(rest, "--file", str(path), "--batch", "2") == 0
    assert capsys.readouterr().out == "nie\n\n  \n你爱我\n\U0001f600\u0301e\nx\u2028\n"
    texts = {row["text"] for _, body in rest.requests for row in body["instances"]}
    assert texts == {"ein", "", "  ", "我爱你", "e\u0301\U0001f600", "\u2028x"}


def test_standard_input(
    rest: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"ab\ncd\n"))
    monkeypatch.setattr(sys, "stdin", stdin)

    assert run(rest) == 0
    assert capsys.readouterr().out == "ba\ndc\n"


def test_requests(rest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(rest, "ab", "--version", "3", "--model", "en/de", "--signature", "other") == 0
    assert run(rest, "ab", "--label", "stable", "--scores") == 0

    assert rest.requests == [
        (
            "/v1/models/en%2Fde/versions/3:predict",
            {"signature_name": "other", "instances": [{"text": "ab"}]},
        ),
        (
            "/v1/models/en-de/labels/stable:predict",
            {"signature_name": "translate", "instances": [{"text": "ab"}]},
        ),
    ]
    assert capsys.readouterr().out == "ba\n-0.5000\tba\n"


def test_several_translations(rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"translations": ["a", "b", ""], "scores": [-1.0, -2.0, -1e9]}
    rest.answer = lambda body: reply(200, {"predictions": [row] * len(body["instances"])})

    assert run(rest, "x", "y", "--n-best", "3") == 0
    captured = capsys.readouterr()
    assert captured.out == "1\ta\n1\tb\n2\ta\n2\tb\n"
    assert captured.err == ""
    assert rest.requests[0][1]["signature_name"] == "nbest"


def test_more_translations_than_the_model_gives(
    rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"translations": ["a", "b"], "scores": [-1.0, -2.0]}
    rest.answer = lambda body: reply(200, {"predictions": [row] * len(body["instances"])})

    assert run(rest, "x", "y", "--n-best", "9") == 0
    captured = capsys.readouterr()
    assert captured.out == "1\ta\n1\tb\n2\ta\n2\tb\n"
    assert captured.err.count("the model returns at most 2 translations per line, not 9") == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_overload_is_retried(rest: Any, reply: Any, status: int) -> None:
    rest.fail(2, reply(status, {"error": "busy"}, {"Retry-After": "3"}))
    retries = Impatient(3)

    found = RestClient(rest.url, "m", retries=retries).predict("translate", ["ab"])

    assert found[0]["translation"] == "ba"
    assert len(rest.requests) == 3
    assert retries.asked == [3.0, 3.0]


def test_broken_connection_is_retried(rest: Any) -> None:
    rest.fail(1, None)

    found = RestClient(rest.url, "m", retries=Impatient(2)).predict("translate", ["ab"])

    assert found[0]["translation"] == "ba"
    assert len(rest.requests) == 2


@pytest.mark.parametrize("status", [400, 404, 307])
def test_a_refusal_is_final(
    rest: Any, reply: Any, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.fail(1, reply(status, {"error": "no such key"}, {"Location": "/elsewhere"}))

    assert run(rest, "ab") == 2
    assert len(rest.requests) == 1
    assert f"{status} no such key" in capsys.readouterr().err


def test_an_error_inside_the_server_is_final(
    rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.fail(1, reply(500, b"<html>Server error</html>"))

    assert run(rest, "ab") == 1
    assert len(rest.requests) == 1
    assert "500 <html>Server error</html>" in capsys.readouterr().err


def test_attempts_are_limited(rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rest.fail(9, reply(503, {"error": "queue is full"}))

    assert run(rest, "ab", "--attempts", "2") == 1
    assert len(rest.requests) == 2
    assert "503 queue is full (2 tries)" in capsys.readouterr().err


def test_an_answer_that_takes_too_long(rest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(body: dict[str, Any]) -> Any:
        time.sleep(0.6)
        raise ConnectionError

    rest.answer = answer

    assert run(rest, "ab", "--timeout", "0.1", "--attempts", "2") == 1
    assert len(rest.requests) == 2
    assert "no answer in 0.1 s (2 tries)" in capsys.readouterr().err


def test_no_server(closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{closed_port}"

    assert rest_client.main(["--url", url, "--model", "m", "ab", "--attempts", "2"]) == 1
    assert "Connection refused (2 tries)" in capsys.readouterr().err


def test_lines_before_a_failure_are_printed(
    rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    well = rest.answer
    rest.answer = lambda body: (
        reply(400, {"error": "bad"}) if body["instances"][0]["text"] == "b" else well(body)
    )

    assert run(rest, "aa", "b", "cc", "--batch", "1", "--in-flight", "1") == 2
    captured = capsys.readouterr()
    assert captured.out == "aa\n"
    assert captured.err.startswith("error: after 1 lines: ")


@pytest.mark.parametrize("body", [{"outputs": []}, {"predictions": [{}, {}]}, [1]])
def test_invalid_reply(rest: Any, reply: Any, body: object) -> None:
    rest.answer = lambda _: reply(200, body)

    with pytest.raises(Failure):
        RestClient(rest.url, "m").predict("translate", ["ab"])


def test_a_signature_without_a_translation(
    rest: Any, reply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.answer = lambda _: reply(200, {"predictions": [{"tokens": 1}]})

    assert run(rest, "ab", "--signature", "score") == 2
    assert "signature score has no output 'translation'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--file", "absent.txt"], "absent.txt: No such file or directory"),
        (["--batch", "0", "ab"], "expected a whole number above 0, got '0'"),
        (["--timeout", "inf", "ab"], "expected a number above 0, got 'inf'"),
        (["--version", "1", "--label", "x", "ab"], "not allowed with argument"),
        (["--url", "foo", "ab"], "argument --url: expected http://HOST:PORT, got 'foo'"),
        (["--url", "localhost:8501", "ab"], "expected http://HOST:PORT, got 'localhost:8501'"),
        (["--url", "http://h:port", "ab"], "expected http://HOST:PORT, got 'http://h:port'"),
    ],
)
def test_mistakes(
    arguments: list[str], message: str, rest: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = run(rest, *arguments)
    except SystemExit as error:  # argparse
        status = int(error.code or 0)

    assert status == 2
    assert message in capsys.readouterr().err


def test_the_model_must_be_named(rest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        rest_client.main(["--url", rest.url, "ab"])

    assert error.value.code == 2
    assert "the following arguments are required: --model" in capsys.readouterr().err
    assert rest.requests == []


def test_input_that_is_not_utf8(
    rest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"fine\n\xff\n")

    assert run(rest, "--file", str(path)) == 2
    assert "line 2: expected UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7, 7),
        ("", 0, 0),
        ("soon", 0, 0),
        (600, 500, 600),
        (-600, 0, 0),
    ],
)
def test_retry_after(header: str | int, least: float, most: float) -> None:
    if isinstance(header, int):  # a date so many seconds from now
        header = email.utils.formatdate(time.time() + header)
    assert least <= rest_client._seconds(header) <= most


def test_as_a_program(rest: Any, kit: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(kit / "rest_client.py"), "--url", rest.url, "--model", "m"],
        input="我\n\n".encode(),
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONIOENCODING": "ascii"},
    )

    assert done.stdout == "我\n\n".encode()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> str:
    """Name a proxy that is down, with a password, in the environment."""
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{closed_port}")
    return f"http://127.0.0.1:{closed_port}"


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_is_called_directly(
    rest: Any, proxy: str, monkeypatch: pytest.MonkeyPatch, host: str, variable: str
) -> None:
    monkeypatch.delenv("http_proxy")
    monkeypatch.setenv(variable, proxy)
    url = rest.url.replace("127.0.0.1", host)

    found = RestClient(url, "m", retries=Impatient(1)).predict("translate", ["ab"])

    assert found[0]["translation"] == "ba"


def test_a_proxy_that_fails_is_named_without_its_password(
    proxy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--url", "http://192.0.2.1:8501", "--model", "m", "ab", "--attempts", "1"]

    assert rest_client.main(words) == 1
    error = capsys.readouterr().err
    assert f"Connection refused (through the proxy {proxy}; see no_proxy)" in error
    assert "secret" not in error


def test_an_error_that_the_proxy_sends_names_it(
    rest: Any, reply: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", rest.url)
    rest.fail(1, reply(403, b"blocked"))
    words = ["--url", "http://192.0.2.1:8501", "--model", "m", "ab"]

    assert rest_client.main(words) == 2
    assert f"403 blocked (through the proxy {rest.url}; see no_proxy)" in capsys.readouterr().err


def test_no_proxy_is_followed(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "192.0.2.1")

    assert rest_client.proxies("http://192.0.2.1:8501/v1") == rest_client.DIRECT
    assert "http" in rest_client.proxies("http://192.0.2.2:8501/v1")
