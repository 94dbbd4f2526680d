"""Load test of a REST server: throughput, latency, errors.

  python export/load_test.py --model en-de --connections 8 --seconds 30
  python export/load_test.py --model en-de --rate 20 --connections 64 --seconds 60 --json

Without --rate each connection sends its next request after the last reply (closed loop), which
measures the greatest throughput. With --rate requests start at fixed times (open loop), and
latency counts from the time when a request was due, so it includes the wait for a free
connection. Requests are not repeated. The default server is this machine's. No proxy is used,
whatever http_proxy says. Exit status: 0 done, 1 requests failed or none had a reply, 2 the server
refuses them (no such model or signature) or an option is wrong.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from client import (
    Failure,
    add_model,
    add_url,
    exit_status,
    positive,
    positive_number,
    predict_path,
)
from lines import read

# From one word to sixty.
SENTENCES = (
    "Hello!",
    "A dog runs.",
    "Two men are talking in the street.",
    "A little girl in a red dress is playing with a ball in the park.",
    "A group of people stand in front of a large building and look at something in the sky.",
    "An old man with a grey beard sits on a wooden bench beside a river, reads a newspaper and "
    "waits for his friend, who is late because the bus did not come on time this morning.",
    "Several children, all of them wearing blue helmets and yellow vests, ride their bicycles "
    "along a narrow path between the trees while their teacher, who is walking behind them with "
    "a large bag on her shoulder, calls out to the slowest boy and asks him to wait at the next "
    "corner, where a woman is selling ice cream from a small white van.",
)

# A wrong model, signature or address: later requests would fail too.
REFUSED = {400, 401, 403, 404, 405}


@dataclass
class Outcome:
    """Results of one connection.

    Args:
        seconds: Latency of each successful request.
        errors: Number of errors by status or exception.
        sentences: Number of translated sentences.
    """

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    sentences: int = 0


class Clock:
    """Start times of requests, shared by all connections.

    Args:
        start: Start of the test in seconds of ``time.monotonic``.
        seconds: Duration of the test.
        rate: Requests per second, None for a closed loop.
    """

    def __init__(self, start: float, seconds: float, rate: float | None) -> None:
        self.start = start
        self._end = start + seconds
        self._rate = rate
        self._taken = 0
        self._lock = threading.Lock()
        self.refusal = ""  # message of a refusal, which ends the test early

    def next(self) -> float | None:
        """Wait until the next request is due.

        Returns:
            Its due time, which has passed if all connections were busy; None at the end.
        """
        if self._rate is None:
            due = time.monotonic()
        else:
            with self._lock:
                due = self.start + self._taken / self._rate
                self._taken += 1
        if due >= self._end or self.refusal:
            return None
        time.sleep(max(0.0, due - time.monotonic()))
        return due


def connect(url: str, timeout: float) -> http.client.HTTPConnection:
    """Return a connection, not yet open, to the host of ``url``."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout)


def send(options: argparse.Namespace, clock: Clock, seed: int) -> Outcome:
    """Send requests over one connection until the clock ends.

    Args:
        options: Command line.
        clock: Shared by all connections.
        seed: Seed for the choice of sentences.
    """
    outcome, choice = Outcome(), random.Random(seed)
    connection = connect(options.url, options.timeout)
    path = urlsplit(options.url).path.rstrip("/") + predict_path(options.model)
    used = 0.0
    while (due := clock.next()) is not None:
        if time.monotonic() - used > 2:  # servers close idle connections
            connection.close()
        texts = choice.choices(options.sentences, k=options.batch)
        rows = [{"text": text} for text in texts]
        body = json.dumps({"signature_name": options.signature, "instances": rows})
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            reply = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            outcome.errors[type(error).__name__] += 1
            time.sleep(0.05)  # refused connections fail thousands of times per second
            continue
        if response.status == 200:
            outcome.seconds.append(time.monotonic() - due)
            outcome.sentences += len(texts)
        elif response.status in REFUSED and not outcome.seconds:
            message = " ".join(reply.decode("utf-8", "replace").split())
            clock.refusal = f"{path}: {response.status} {message:.300}"
        else:
            outcome.errors[str(response.status)] += 1
        used = time.monotonic()
    connection.close()
    return outcome


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that ``percent`` of all values do not exceed (nearest rank).

    Args:
        values: At least one, in any order.
        percent: Above 0, up to 100.
    """
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Run the load test.

    Returns:
        Counts, rates and times in milliseconds, in the order of printing.

    Raises:
        Failure: The server refuses the first request.
    """
    outcomes: list[Outcome] = []
    clock = Clock(time.monotonic(), options.seconds, options.rate)
    threads = [
        threading.Thread(
            target=lambda seed: outcomes.append(send(options, clock, seed)),
            args=(seed,),
            daemon=True,
        )
        for seed in range(options.connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if clock.refusal:
        raise Failure(clock.refusal, 2)
    taken = time.monotonic() - clock.start
    times = [1000 * seconds for outcome in outcomes for seconds in outcome.seconds]
    figures: dict[str, object] = {
        "connections": options.connections,
        "sentences per request": options.batch,
        "seconds": round(taken, 1),
        "answered": len(times),
        "requests/s": round(len(times) / taken, 1),
        "sentences/s": round(sum(outcome.sentences for outcome in outcomes) / taken, 1),
    }
    for name, percent in (("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("longest", 100.0)):
        figures[f"{name} ms"] = round(percentile(times, percent), 1) if times else None
    figures["errors"] = dict(sum((outcome.errors for outcome in outcomes), Counter[str]()))
    return figures


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = result.add_argument
    add_url(result)
    add_model(result)
    add("--signature", default="translate", help="signature that takes text (%(default)s)")
    add("--connections", type=positive, default=8, help="connections (%(default)s)")
    add("--seconds", type=positive_number, default=10.0, help="duration (%(default)s)")
    add("--rate", type=positive_number, help="requests per second, at fixed times")
    add("--batch", type=positive, default=1, help="sentences per request (%(default)s)")
    add("--file", type=Path, metavar="FILE", help="sentences to choose from, UTF-8 lines")
    add("--timeout", type=positive_number, default=35.0, help="seconds per reply (%(default)s)")
    add("--json", action="store_true", help="print one JSON object")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; see the module's docstring for the exit status."""
    options = parser().parse_args(argv)
    return exit_status(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    options.sentences = SENTENCES
    if options.file is not None:
        options.sentences = [line for line in read(options.file) if line.strip()]
        if not options.sentences:
            raise Failure(f"{options.file}: expected lines of text, found none", 2)
    figures = measure(options)
    if options.json:
        print(json.dumps(figures))
    else:
        width = max(map(len, figures))
        for name, value in figures.items():
            print(f"{name:{width}}  {value if value not in ({}, None) else 'none'}")
    return 1 if figures["errors"] or not figures["answered"] else 0


if __name__ == "__main__":
    sys.exit(main())
