"""Load and overhead of the local server: ``python benchmarks/serve.py export/models/en-de``.

Starts ``python -m keras_transformer.serve`` on a free port and measures two things:

- Load: many connections at once send sentences of mixed lengths for a while. Printed are
  requests per second, latencies, errors, and the server's memory at its start, after a
  warm-up and at the end.
- Overhead: one connection, one sentence at a time, in turn with a direct call of the same
  signature in a process of its own. Printed are the medians of both and of the differences.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}

SENTENCES = [
    "Stop.",
    "A dog runs.",
    "Two children are playing in the snow.",
    "Do you have time tomorrow?",
    "The old man with the grey hat is reading a newspaper on a bench.",
    "A woman is selling fruit and vegetables at a small market near the station.",
    "She is reading a book.",
    "Several people in bright jackets are waiting for the bus while it is raining, and one of "
    "them holds a large umbrella over a little girl with a red bag.",
    "He opened the door, looked around the empty room, and closed it again without a word.",
    "I do not know.",
]


@dataclass
class Load:
    """Measurements of one connection."""

    seconds: list[float] = field(default_factory=list)
    rows: int = 0
    errors: list[str] = field(default_factory=list)


class Server:
    """Server in its own process.

    Args:
        folder: An exported model.
        options: More words for its command line.
    """

    def __init__(self, folder: Path, options: list[str]) -> None:
        command = [sys.executable, "-m", "keras_transformer.serve", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *options], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if found := re.search(r"serving (http\S+)", line):
                break
        else:
            raise SystemExit("the server did not start:\n" + "".join(seen))
        self.url = urlsplit(found[1])
        # Do not wait for further output of the server.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection."""
        return http.client.HTTPConnection(self.url.hostname or "", self.url.port, timeout=120)

    def predict(self, connection: http.client.HTTPConnection, texts: list[str]) -> None:
        """Send sentences and check the number of translations."""
        body = json.dumps({"instances": texts}).encode()
        connection.request("POST", f"{self.url.path}:predict", body)
        reply = connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise ValueError(f"{reply.status} {content[:200]!r}")
        if len(json.loads(content)["predictions"]) != len(texts):
            raise ValueError("an answer is missing")

    def memory(self) -> float:
        """Return resident memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def end(self) -> int:
        """Stop the server; return its exit status."""
        self.process.terminate()
        return self.process.wait(60)


def press(server: Server, sentences: list[str], connections: int, seconds: float) -> list[Load]:
    """Keep a number of connections busy for a while."""
    end = time.monotonic() + seconds
    loads = [Load() for _ in range(connections)]

    def work(load: Load, dice: random.Random) -> None:
        connection = server.connect()
        while time.monotonic() < end:
            texts = dice.choices(sentences, k=dice.choice([1, 1, 1, 2, 4]))
            started = time.perf_counter()
            try:
                server.predict(connection, texts)
            except (OSError, ValueError, http.client.HTTPException) as error:
                load.errors.append(repr(error))
                connection.close()
                continue
            load.seconds.append(time.perf_counter() - started)
            load.rows += len(texts)
        connection.close()

    threads = [
        threading.Thread(target=work, args=(load, random.Random(seed)))
        for seed, load in enumerate(loads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return loads


@contextlib.contextmanager
def direct_calls(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that calls the signature directly: a sentence in, seconds out, per line."""
    versions = [int(place.name) for place in folder.iterdir() if place.name.isdecimal()]
    command = [sys.executable, __file__, "--direct", str(folder / str(max(versions)))]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        yield process


def call_directly(folder: Path) -> None:
    """Serve ``direct_calls``."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations of tokenizers

    tf.config.threading.set_intra_op_parallelism_threads(1)  # as the server has it
    model = tf.saved_model.load(str(folder))
    function = model.signatures["serving_default"]
    for line in sys.stdin:
        started = time.perf_counter()
        outputs = function(text=tf.constant([json.loads(line)]))
        for value in outputs.values():
            value.numpy()
        print(time.perf_counter() - started, flush=True)


def overhead(
    server: Server, folder: Path, sentences: list[str], rounds: int
) -> tuple[list[float], list[float]]:
    """Return seconds by REST and directly, measured in turn without the first round."""
    rest, direct = [], []
    with direct_calls(folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print('""', file=process.stdin, flush=True)
        process.stdout.readline()  # comes when the model is loaded
        connection = server.connect()
        for turn in range(rounds + 1):
            for text in sentences:
                print(json.dumps(text), file=process.stdin, flush=True)
                directly = float(process.stdout.readline())
                started = time.perf_counter()
                server.predict(connection, [text])
                by_rest = time.perf_counter() - started
                if turn:
                    rest.append(by_rest)
                    direct.append(directly)
        process.stdin.close()
    return rest, direct


@dataclass(frozen=True)
class Report:
    """Figures of a run, in milliseconds and MiB."""

    connections: int
    seconds: float
    requests_per_second: float
    sentences_per_second: float
    p50: float
    p95: float
    p99: float
    slowest: float
    errors: int
    memory_start: float
    memory_warm: float
    memory_end: float
    rest_p50: float
    direct_p50: float
    overhead_p50: float


def measure(arguments: argparse.Namespace, sentences: list[str]) -> tuple[Report, list[str]]:
    """Run everything; return the figures and the errors."""
    server = Server(arguments.folder, arguments.options.split())
    try:
        memory = [server.memory()]
        rest, direct = overhead(server, arguments.folder, sentences, arguments.rounds)
        press(server, sentences, arguments.connections, arguments.warm)
        memory.append(server.memory())
        loads = press(server, sentences, arguments.connections, arguments.seconds)
        memory.append(server.memory())
    finally:
        status = server.end()
    errors = [error for load in loads for error in load.errors]
    if status:
        errors.append(f"the server ended with status {status}")
    times = [1000 * value for load in loads for value in load.seconds]
    percent = quantiles(times, n=100)
    more = [1000 * (one - other) for one, other in zip(rest, direct, strict=True)]
    middle = [1000 * median(values) for values in (rest, direct)]
    report = Report(
        arguments.connections,
        arguments.seconds,
        len(times) / arguments.seconds,
        sum(load.rows for load in loads) / arguments.seconds,
        *(percent[49], percent[94], percent[98], max(times), len(errors)),
        *memory,
        *(middle[0], middle[1], median(more)),
    )
    return report, errors


def main() -> int:
    """Measure, print, and fail if there were errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="folder of an exported model")
    parser.add_argument("--seconds", type=float, default=60, help="of load (default: 60)")
    parser.add_argument("--warm", type=float, default=60, help="of load before (default: 60)")
    parser.add_argument("--connections", type=int, default=32, help="at once (default: 32)")
    parser.add_argument("--rounds", type=int, default=30, help="of the overhead (default: 30)")
    parser.add_argument("--sentences", type=Path, help="a text file, one sentence a line")
    parser.add_argument("--options", default="", help="for the server, in one word")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--direct", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.direct:
        call_directly(arguments.direct)
        return 0
    if arguments.folder is None:
        parser.error("name the folder of an exported model")
    sentences = SENTENCES
    if arguments.sentences:
        sentences = arguments.sentences.read_text(encoding="utf-8").split("\n")[:1000]
    report, errors = measure(arguments, sentences)
    for name, value in asdict(report).items():
        print(f"{name:22}{value:10.2f}" if isinstance(value, float) else f"{name:22}{value:7}")
    for error in errors[:5]:
        print(error, file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
