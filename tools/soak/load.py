"""Clients of a server: good and bad requests, slow senders, clients that vanish."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tools.soak.answers import Answers

SHORT = 4
"""Most words of a short sentence, whose latency is reported."""
TRIES = 20
"""Attempts of a good request that is refused, half a second apart."""
REFUSED = (429, 503)

_KINDS = {"short": 40, "good": 40, "bad": 12, "slow": 4, "vanish": 3.7, "stall": 0.3}
_THINK = 0.25  # seconds between two requests of a client, on average
_TIMEOUT = 90.0


@dataclass
class Tally:
    """Outcomes of all clients.

    Args:
        counts: Number of outcomes by name.
        faults: Descriptions of wrong answers and failures.
        milliseconds: Latency of single short sentences that were answered at once.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str, fault: str = "") -> None:
        """Count an outcome, and keep its description if it is a fault."""
        with self.lock:
            self.counts[name] += 1
            if fault:
                self.faults.append(f"{name}: {fault}"[:600])

    def time(self, seconds: float) -> None:
        """Record a latency."""
        with self.lock:
            self.milliseconds.append(1000 * seconds)


@dataclass(frozen=True)
class BadRequest:
    """A request that the server has to refuse.

    Args:
        name: For messages.
        method: HTTP method.
        path: What follows the model's path; an absolute path if it begins with "/".
        body: The body.
    """

    name: str
    method: str
    path: str
    body: bytes = b""


BAD = (
    BadRequest("no JSON", "POST", ":predict", b"{"),
    BadRequest("not UTF-8", "POST", ":predict", b"\xff\xfe"),
    BadRequest("a number", "POST", ":predict", b'{"instances": 5}'),
    BadRequest("numbers for text", "POST", ":predict", b'{"instances": [1, 2]}'),
    BadRequest("wrong rank", "POST", ":predict", b'{"instances": [["a"]]}'),
    BadRequest("no input", "POST", ":predict", b'{"signature_name": "translate"}'),
    BadRequest("nested", "POST", ":predict", b'{"instances": ' + b"[" * 20_000),
    BadRequest("no signature", "POST", ":predict", b'{"signature_name": "x", "instances": ["a"]}'),
    BadRequest("no model", "POST", "/v1/models/other:predict", b'{"instances": ["a"]}'),
    BadRequest("no version", "POST", "/versions/987654321:predict", b'{"instances": ["a"]}'),
    BadRequest("no path", "GET", "/nothing"),
    BadRequest("wrong method", "PUT", ":predict", b'{"instances": ["a"]}'),
    BadRequest("long text", "POST", ":predict", json.dumps({"instances": ["a " * 2**15]}).encode()),
    BadRequest("large body", "POST", ":predict", b'{"instances": ["' + b"a" * 2**21 + b'"]}'),
)
"""Requests that are refused with a status from 400 to 499."""


class Client:
    """A connection that sends random requests until the end.

    Args:
        url: Address of the model.
        rng: Source of randomness.
        sentences: Sentences with known answers.
        answers: The right answers.
        tally: Receives the outcomes.
        end: When to stop, by `time.monotonic`.
    """

    def __init__(
        self,
        url: str,
        rng: random.Random,
        sentences: Sequence[str],
        answers: Answers,
        tally: Tally,
        end: float,
    ) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._path = parts.path
        self._rng, self._sentences = rng, sentences
        self._short = [text for text in sentences if len(text.split()) <= SHORT]
        self._answers, self._tally, self._end = answers, tally, end
        self._connection = self._connect()
        self._fresh = True

    def run(self) -> None:
        """Send requests until the end."""
        actions = {
            "short": lambda: self._good([self._rng.choice(self._short)]),
            "good": lambda: self._good(self._texts()),
            "bad": self._bad,
            "slow": lambda: self._good(self._texts(), slow=True),
            "vanish": self._vanish,
            "stall": self._stall,
        }
        while time.monotonic() < self._end:
            [kind] = self._rng.choices(list(_KINDS), list(_KINDS.values()))
            try:
                actions[kind]()
            except Exception as error:
                self._close()
                self._tally.count("failed", f"{kind}: {type(error).__name__}: {error}")
            time.sleep(self._rng.expovariate(1 / _THINK))
        self._close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=_TIMEOUT)

    def _close(self) -> None:
        self._connection.close()
        self._fresh = True

    def _texts(self) -> list[str]:
        return self._rng.choices(self._sentences, k=self._rng.choice((1, 1, 2, 4)))

    def _body(self, texts: list[str]) -> bytes:
        """Return a request in one of the forms of the interface."""
        rows = {"signature_name": "translate", "instances": [{"text": text} for text in texts]}
        columns = {"signature_name": "translate", "inputs": {"text": texts}}
        return json.dumps(self._rng.choice((rows, columns)), ensure_ascii=False).encode()

    def _good(self, texts: list[str], slow: bool = False) -> None:
        """Send a good request until it is answered; check the answer."""
        body = self._body(texts)
        refusals = 0
        while True:
            started = time.monotonic()
            status, reply = self._send("POST", f"{self._path}:predict", body, slow)
            ended = time.monotonic()
            if status not in REFUSED:
                break
            self._tally.count(f"refused {status}")
            refusals += 1
            if refusals == TRIES:
                self._tally.count("refused for good", f"status {status}, {TRIES} times")
                return
            time.sleep(0.5)
        if status != 200:
            self._tally.count(f"status {status}", f"{texts}: {reply[:200]!r}")
            return
        fault = self._answers.fault(texts, translations(json.loads(reply)), started, ended)
        self._tally.count("wrong" if fault else "answered", fault)
        if len(texts) == 1 and texts[0] in self._short and not refusals and not slow:
            self._tally.time(ended - started)

    def _bad(self) -> None:
        """Send a bad request; only a status from 400 to 499 or a refusal is right."""
        bad = self._rng.choice(BAD)
        path = bad.path if bad.path.startswith(("/v1", "/nothing")) else self._path + bad.path
        try:
            status, reply = self._send(bad.method, path, bad.body)
        except (BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
            self._close()
            self._tally.count("bad refused early")
            return
        right = 400 <= status < 500 or status in REFUSED
        fault = "" if right else f"{bad.name}: {reply[:200]!r}"
        self._tally.count("bad refused" if right else f"bad answered {status}", fault)

    def _send(self, method: str, path: str, body: bytes, slow: bool = False) -> tuple[int, bytes]:
        """Send a request over the connection and return status and body of the reply.

        A server may close an idle connection while the next request is on its way; such a
        request is sent once more, over a new connection.
        """
        reused = not self._fresh
        try:
            self._write(self._connection, method, path, body, slow)
            response = self._connection.getresponse()
            content = response.read()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._close()
            if not reused:
                raise
            self._tally.count("connection closed while idle")
            return self._send(method, path, body, slow)
        self._fresh = bool(response.will_close)
        return response.status, content

    def _write(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes,
        slow: bool = False,
    ) -> None:
        connection.putrequest(method, path)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        parts = 5 if slow else 1
        size = -(-len(body) // parts) or 1
        for start in range(0, len(body), size):
            connection.send(body[start : start + size])
            if slow:
                time.sleep(self._rng.uniform(0.0, 0.6))

    def _vanish(self) -> None:
        """Close the connection in the middle of a request or before its answer."""
        connection, body = self._connect(), self._body(self._texts())
        try:
            connection.putrequest("POST", f"{self._path}:predict")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            connection.send(body[: self._rng.choice((0, len(body) // 2, len(body)))])
            time.sleep(self._rng.uniform(0.0, 0.02))
        finally:
            connection.close()
        self._tally.count("vanished")

    def _stall(self) -> None:
        """Send half of a body and wait; only status 408 or a refusal is right."""
        connection, body = self._connect(), self._body(self._texts())
        try:
            connection.putrequest("POST", f"{self._path}:predict")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            connection.send(body[: len(body) // 2])
            response = connection.getresponse()
            status, reply = response.status, response.read()
        finally:
            connection.close()
        right = status == 408 or status in REFUSED
        self._tally.count(f"stalled {status}", "" if right else f"{reply[:200]!r}")


def translations(reply: dict[str, Any]) -> list[str]:
    """Return the translations of a reply in either form."""
    if "outputs" in reply:
        return list(reply["outputs"]["translation"])
    return [row["translation"] for row in reply["predictions"]]
