"""Scripted servers on 127.0.0.1, and the folder of the clients."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

KIT = Path(__file__).resolve().parents[2] / "export"
sys.path.insert(0, str(KIT))


@dataclass
class Reply:
    status: int
    body: object
    headers: dict[str, str] = field(default_factory=dict)


def reversing(body: dict[str, Any]) -> Reply:
    """Return the row form of a model that reverses its input."""
    rows = [
        {"translation": row["text"][::-1], "score": -0.25 * len(row["text"]), "truncated": False}
        for row in body["instances"]
    ]
    return Reply(200, {"predictions": rows})


class RestServer:
    """Replies to POST with ``answer`` and to GET with ``status``.

    Attributes:
        requests: Path and body of each POST.
        answer: Makes a reply; it may raise ConnectionError to close the connection.
    """

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], Reply] = reversing
        self.status: object = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append((self.path, body))
                try:
                    reply = server.answer(body)
                except ConnectionError:
                    self.close_connection = True
                    return
                self._send(reply)

            def do_GET(self) -> None:
                self._send(Reply(200, server.status))

            def _send(self, reply: Reply) -> None:
                raw = reply.body
                data = raw if isinstance(raw, bytes) else json.dumps(raw, indent=4).encode()
                try:
                    self.send_response(reply.status)
                    self.send_header("Content-Length", str(len(data)))
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)
                except ConnectionError:  # the client gave up
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def fail(self, times: int, reply: Reply | None) -> None:
        """Fail ``times`` times with ``reply`` (None: close the connection), then succeed."""
        left = [times]

        def answer(body: dict[str, Any]) -> Reply:
            if left[0] == 0:
                return reversing(body)
            left[0] -= 1
            if reply is None:
                raise ConnectionError
            return reply

        self.answer = answer


@pytest.fixture
def rest() -> Iterator[RestServer]:
    server = RestServer()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


@pytest.fixture
def closed_port() -> int:
    """A free port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return server.server_port


@pytest.fixture(scope="session")
def reply() -> type[Reply]:
    return Reply


@pytest.fixture(scope="session")
def kit() -> Path:
    """The folder ``export``."""
    return KIT
