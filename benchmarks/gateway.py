"""Harmful requests with and without the gateway: ``python benchmarks/gateway.py``.

A stand-in for TensorFlow Serving batches requests, and has its three weaknesses: an empty list
holds a REST thread until the time limit, a wrong shape fails all requests of its batch, and 20,000
nested brackets end the process. Good clients (export/load_test.py) send requests at a fixed rate.
A harmful client sends one request for every three of theirs. Printed are failed requests and
latencies of the good clients: directly with each weakness, and through the gateway without and
with all three, in turn; the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
# Seconds of good requests before the first harmful one.
START = 2.0
PREDICT = "/v1/models/toy:predict"
HARMFUL = {
    "empty list": b'{"inputs": []}',
    "wrong shape": b'{"instances": [["a"]]}',
    "20,000 brackets": b"[" * 20_000,
}
TENSOR = {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "-1"}]}}
METADATA = {
    "model_spec": {"name": "toy", "version": "1"},
    "metadata": {
        "signature_def": {"signature_def": {"serving_default": {"inputs": {"text": TENSOR}}}}
    },
}


class StandIn:
    """A server with the batches and the weaknesses of TensorFlow Serving.

    The numbers are those of export/serving/batching.config, and the speed is that of a small
    model; four REST threads for each of two cores, as TensorFlow Serving has them.
    """

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[list[object], asyncio.Future[bool]]] = asyncio.Queue()
        self.threads = asyncio.Semaphore(8)

    async def run(self) -> None:
        """Serve on a free port, which is printed."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=512)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.gather(self.batch(), self.batch())

    async def batch(self) -> None:
        """Run batches, as one of the batch threads."""
        while True:
            jobs = [await self.queue.get()]
            await asyncio.sleep(0.002)
            while len(jobs) < 32 and not self.queue.empty():
                jobs.append(self.queue.get_nowait())
            await asyncio.sleep(0.03 + 0.002 * len(jobs))
            good = all(isinstance(row, str) for rows, _ in jobs for row in rows)
            for _, done in jobs:
                if not done.cancelled():
                    done.set_result(good)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = head.partition("content-length:")[2].partition("\r\n")[0]
                body = await reader.readexactly(int(length or 0))
                async with self.threads:
                    status, reply = await self.reply(head, body)
                data = json.dumps(reply).encode()
                start = f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n"
                writer.write(start.encode() + data)
                await writer.drain()
        writer.close()

    async def reply(self, head: str, body: bytes) -> tuple[int, object]:
        """Return status and body of a reply."""
        if head.startswith("get "):
            return 200, METADATA
        if body.count(b"[") > 10_000:
            os._exit(139)  # its parser overflows the stack
        document = json.loads(body)
        rows = document.get("instances", document.get("inputs"))
        rows = [row["text"] if isinstance(row, dict) else row for row in rows]
        if not rows:
            await asyncio.sleep(30)
            return 504, {"error": "Timed out waiting for batch"}
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((rows, done))
        good = await done
        return (200, {"predictions": rows}) if good else (400, {"error": "Batching mismatch"})


@contextlib.contextmanager
def process(words: Sequence[str], stream: str) -> Iterator[str]:
    """Run a Python program; yields its first line of output."""
    with subprocess.Popen(
        [sys.executable, *words], text=True, env=ENVIRONMENT, **{stream: subprocess.PIPE}
    ) as program:
        lines = program.stdout if stream == "stdout" else program.stderr
        assert lines is not None
        try:
            line = lines.readline()
            threading.Thread(target=lines.read, daemon=True).start()
            yield line.strip()
        finally:
            program.kill()


@contextlib.contextmanager
def harmful_client(url: str, bodies: Sequence[bytes], rate: float) -> Iterator[None]:
    """Send harmful requests at a rate; each on a connection of its own, so that none waits."""
    stop = threading.Event()
    address = urlsplit(url).netloc

    def send(body: bytes) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(address, timeout=35)
            connection.request("POST", PREDICT, body)
            connection.getresponse().read()
            connection.close()

    def work() -> None:
        if stop.wait(START):
            return
        for body in itertools.cycle(bodies):
            if stop.wait(1 / rate):
                return
            threading.Thread(target=send, args=(body,), daemon=True).start()

    thread = threading.Thread(target=work)
    if bodies:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if bodies:
            thread.join()


def press(url: str, bodies: Sequence[bytes], arguments: argparse.Namespace) -> dict[str, float]:
    """Return the figures of the good clients while harmful requests are sent."""
    command = [sys.executable, str(ROOT / "export" / "load_test.py"), "--url", url]
    command += ["--model", "toy", "--signature", "serving_default", "--json", "--timeout", "5"]
    command += ["--seconds", str(arguments.seconds), "--rate", str(arguments.rate)]
    with harmful_client(url, bodies, arguments.rate / 3):
        done = subprocess.run([*command, "--connections", "32"], capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"the load test failed: {done.stderr}")
    found = json.loads(done.stdout)
    failed = sum(found["errors"].values())
    kept = {name: found[name] for name in ("answered", "p50 ms", "p99 ms", "longest ms")}
    return kept | {"failed": failed}


def show(name: str, figures: dict[str, float]) -> None:
    """Print a row of the table."""
    values = "  ".join(f"{key} {value}" for key, value in figures.items())
    print(f"{name:36}{values}", flush=True)


def main() -> int:
    """Measure and print; fail if the gateway let a good client down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=15, help="of each run (default: 15)")
    parser.add_argument("--rate", type=float, default=45, help="good requests/s (default: 45)")
    parser.add_argument("--rounds", type=int, default=5, help="with the gateway (default: 5)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--stand-in", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stand_in:
        asyncio.run(StandIn().run())
        return 0
    rows: dict[str, dict[str, float]] = {}
    for name, body in {"nothing": None, **HARMFUL}.items():
        with process([__file__, "--stand-in"], "stdout") as port:
            bodies = [body] if body else []
            rows[f"directly, {name}"] = press(f"http://127.0.0.1:{port}", bodies, arguments)
        show(f"directly, {name}", rows[f"directly, {name}"])
    runs: dict[str, list[dict[str, float]]] = {"nothing": [], "all three": []}
    with process([__file__, "--stand-in"], "stdout") as port:
        words = ["-m", "keras_transformer.serve", "--port", "0"]
        words += ["--upstream", f"http://127.0.0.1:{port}"]
        with process(words, "stderr") as line:
            url = line.partition("serving ")[2].partition(" ")[0]
            for _ in range(arguments.rounds):
                runs["nothing"].append(press(url, [], arguments))
                runs["all three"].append(press(url, list(HARMFUL.values()), arguments))
                time.sleep(0.5)
    for name, found in runs.items():
        rows[f"gateway, {name}"] = {
            key: round(median(run[key] for run in found), 1) for key in found[0]
        }
        rows[f"gateway, {name}"]["failed"] = sum(run["failed"] for run in found)
        show(f"gateway, {name}", rows[f"gateway, {name}"])
    change = rows["gateway, all three"]["p99 ms"] / rows["gateway, nothing"]["p99 ms"] - 1
    print(f"p99 through the gateway with harmful requests: {change:+.1%}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "runs": runs}, indent=2) + "\n")
    return int(any(rows[f"gateway, {name}"]["failed"] for name in runs))


if __name__ == "__main__":
    sys.exit(main())
