"""A scripted server behind the page and a real browser in front of it."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[3] / "keras_transformer/server/page"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
TIMEOUT_MS = 20_000  # a busy machine is slow
# The page's own pauses, for typing and the like, would make up half of the tests' time.
SHORT_PAUSES = """
    const schedule = window.setTimeout;
    window.setTimeout = (action, ms) => schedule(action, ms < 1000 ? ms / 10 : ms);
"""
CHROMIUM_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class ScriptedServer:
    """The REST interface as the page uses it, with predictable replies.

    A sentence s becomes "[s]"; its hypotheses are "[s]" and "(s)"; its tokens are its words,
    and each target token attends to its own word with 0.7.
    """

    def __init__(self) -> None:
        self.model: dict[str, Any] = {
            "name": "mock",
            "version": 3,
            "languages": {"source": "en", "target": "de"},
            "search": {"beam": 4, "alpha": 0.6, "n_best": 4, "max_tokens": 256},
        }
        self.requests: list[tuple[str, list[str]]] = []
        self.failures: list[tuple[int, str]] = []  # replies to the next translations
        self.silent = False  # connections are closed without a reply
        self.released = threading.Event()  # predictions of texts with "slow" in them wait for it
        self.answered: list[list[str]] = []  # texts of each request that has been answered
        self.delay = 0.0  # seconds for every prediction
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}/"

    def requested(self, signature: str = "serving_default") -> list[list[str]]:
        """Return the texts of each request for a signature, in order of arrival."""
        return [texts for name, texts in self.requests if name == signature]

    def predict(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        texts = body["instances"]
        self.requests.append((body["signature_name"], texts))
        if any("slow" in text for text in texts):
            self.released.wait(60)  # longer than any test waits
        time.sleep(self.delay)
        # A late request for another signature must not take the failure away.
        if self.failures and body["signature_name"] == "serving_default":
            status, message = self.failures.pop(0)
            return status, {"error": message}
        answer: Callable[[str], dict[str, Any]] = getattr(self, f"_{body['signature_name']}")
        return 200, {"predictions": [answer(text) for text in texts]}

    def _serving_default(self, text: str) -> dict[str, Any]:
        return {"translation": f"[{text}]", "score": -0.25, "truncated": "too long" in text}

    def _nbest(self, text: str) -> dict[str, Any]:
        return {
            "translations": [f"[{text}]", f"({text})", "", ""],
            "scores": [-0.25, -1.5, -1e9, -1e9],
        }

    def _align(self, text: str) -> dict[str, Any]:
        pieces = [f"\u2581{word}" for word in text.split()] + ["</s>"]
        rest = 0.3 / max(len(pieces) - 1, 1)
        weights = [
            [0.7 if s == t else rest for s in range(len(pieces))] for t in range(len(pieces))
        ]
        padded = [[*row, 0.0, 0.0] for row in weights] + [[0.0] * (len(pieces) + 2)]
        return {
            **self._serving_default(text),
            "source_pieces": [*pieces, "", ""],
            "target_pieces": [*pieces, ""],
            "attention": padded,
        }

    def _handler(scripted) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections are reused

            def do_GET(self) -> None:
                name = self.path.removeprefix("/page/") if self.path != "/" else "index.html"
                if scripted.silent:
                    self.close_connection = True
                    return
                if name == "model.json":
                    self._send(200, "application/json", json.dumps(scripted.model).encode())
                elif "/" not in name and (PAGE / name).is_file():
                    file = PAGE / name
                    self._send(200, TYPES[file.suffix], file.read_bytes())
                else:
                    self._send(404, "text/plain", b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if scripted.silent:
                    self.close_connection = True
                    return
                expected = f"/v1/models/{scripted.model['name']}:predict"
                request = json.loads(body)
                status, reply = (
                    scripted.predict(request)
                    if self.path == expected
                    else (404, {"error": f"no such path: {self.path}"})
                )
                with suppress(ConnectionError):  # the page has dropped the request
                    self._send(status, "application/json", json.dumps(reply).encode())
                scripted.answered.append(request["instances"])

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", "default-src 'self'")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Start a scripted server."""
    scripted = ScriptedServer()
    thread = threading.Thread(target=scripted.http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield scripted
    scripted.released.set()
    scripted.http.shutdown()
    scripted.http.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start headless Chromium, once for a module; skip if it or its driver is absent."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("neither chromium nor google-chrome is on PATH")
    sync_api.expect.set_options(timeout=TIMEOUT_MS)
    # By module, not by session: while the driver runs, nothing else here may start an event loop.
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


def new_page(browser: Any, script: str = "", **options: Any) -> Any:
    """Return an empty page in a fresh profile; `script` runs before a document's own."""
    context = browser.new_context(**options)
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(SHORT_PAUSES + script)
    return context.new_page()


@pytest.fixture(scope="module")
def shared_page(browser: Any) -> Any:
    """Return a page for all tests: each test's server has its own port and thus its own storage."""
    return new_page(browser)


@pytest.fixture
def open_page(
    browser: Any, shared_page: Any, server: ScriptedServer
) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the page; an error in the browser's log fails the test.

    `expect_errors` allows errors. `script` and the keyword arguments of a Playwright browser
    context need a profile of their own.
    """
    pages: list[Any] = []
    errors: list[str] = []
    tolerant: list[bool] = []

    def on_error(error: Any) -> None:
        errors.append(str(error))

    def on_console(message: Any) -> None:
        if message.type == "error":
            errors.append(message.text)

    def opened(*, script: str = "", expect_errors: bool = False, **options: Any) -> Any:
        page = new_page(browser, script, **options) if script or options else shared_page
        page.on("pageerror", on_error)
        page.on("console", on_console)
        pages.append(page)
        tolerant.append(expect_errors)
        page.goto(server.address)
        return page

    yield opened
    for page in pages:
        if page is not shared_page:
            page.context.close()
            continue
        page.remove_listener("pageerror", on_error)
        page.remove_listener("console", on_console)
        page.unroute_all()
        page.emulate_media(color_scheme="null", reduced_motion="null")
        page.goto("about:blank")
    assert errors == [] or any(tolerant)
