"""The local server under load, while its versions change."""

from __future__ import annotations

import math
import random
import re
import shutil
import signal
import statistics
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from keras_transformer.data import phrasebook
from tools.soak.answers import Answers, Timeline
from tools.soak.load import SHORT, Client, Tally
from tools.soak.processes import Process, complete, members, resident
from tools.soak.runs import Runs, phrasebook_run
from tools.soak.saved_model import translate
from tools.soak.trials import Trial, TrialError
from tools.soak.versions import Swapper

CONNECTIONS = 32
INTERVAL = 30.0
"""Seconds between two new versions."""
MEMORY_GROWTH = 0.05
"""Greatest growth of the resident memory from the second minute of ten to the end."""
JUDGED_SECONDS = 300.0
"""A shorter load says nothing about growth: the allocator has not settled."""

_OPTIONS = ("--port", "0", "--timeout_s", "20", "--max_body_mb", "1", "--max_text_kb", "16")
_QUEUE = ("--max_queue", "16", "--poll_s", "0.5")
_WINDOW = 20.0  # seconds of a mean of the memory


def loaded(trial: Trial, runs: Runs) -> dict[str, Any]:
    """Serve two exports in turn under load.

    Args:
        trial: The trial; ``count`` is the number of seconds.
        runs: The folder of the test.

    Raises:
        TrialError: A wrong answer, an unexpected status, or memory that grows.
    """
    rng = trial.random()
    exports, sentences = _exports(runs), choose_sentences(rng)
    known = [dict(zip(sentences, translate(path, sentences), strict=True)) for path in exports]
    if known[0] == known[1]:
        raise TrialError("the two exports translate alike, so the test could not tell them apart")
    folder = runs.folder / "trials" / "served"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    timeline = Timeline()
    answers = Answers(timeline, known)
    swapper = Swapper(folder, exports, timeline, answers, rng)
    process = Process("serve", [str(folder), *_OPTIONS, *_QUEUE])
    try:
        url = _address(process)
        swapper.start(url, min(INTERVAL, trial.count / 4))
        tally, memory = _press(url, process, rng, sentences, answers, trial.count)
        swapper.stop()
        figures = summary(tally, memory, trial.count) | {
            "swaps": swapper.swaps,
            "damaged versions": swapper.damaged,
            "longest loading, s": round(swapper.longest, 1),
            "replies": count_replies(_metrics(url)),
        }
        process.send(signal.SIGTERM)
        status = process.wait(60)
    except BaseException:
        process.kill()
        raise
    faults = swapper.faults + tally.faults + judge(figures)
    if status not in (0, 128 + signal.SIGTERM) or "Traceback" in process.log:
        faults.append(f"the server ended with status {status}\n{process.log[-1500:]}")
    if faults:
        (runs.folder / "server.log").write_text(process.log, encoding="utf-8")
        raise TrialError(f"{len(faults)} faults: " + "; ".join(faults[:5]), figures)
    shutil.rmtree(folder)
    return figures


def _exports(runs: Runs) -> list[Path]:
    """Export two runs with different weights, unless that is done."""
    folder = runs.folder / "models"

    def make(seed: int) -> Path:
        run, target = phrasebook_run(folder, seed), folder / f"export-{seed}"
        if not (target / "1").exists():
            complete("export", ["--run", str(run), "--to", str(target), "--dev_sentences", "0"])
        return target / "1"

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(make, (1, 2)))


def choose_sentences(rng: random.Random) -> list[str]:
    """Return different sentences of the built-in corpus: short ones, usual ones, long ones."""
    found = [english for english, _ in phrasebook.pairs("test")]
    short = [text for text in found if len(text.split()) <= SHORT]
    usual = [text for text in found if len(text.split()) > SHORT]
    long = [" ".join(rng.sample(usual, 4)) for _ in range(4)]
    return [*rng.sample(short, 20), *rng.sample(usual, 30), *long]


def _address(process: Process) -> str:
    """Wait for the address of the model in the log."""
    if not process.wait_until(lambda: "serving http" in process.log, 180):
        raise TrialError(f"the server did not start\n{process.log[-1500:]}")
    found = re.search(r"serving (http\S+)", process.log)
    return found[1] if found else ""


def _press(
    url: str,
    process: Process,
    rng: random.Random,
    sentences: Sequence[str],
    answers: Answers,
    seconds: float,
) -> tuple[Tally, list[tuple[float, int]]]:
    """Send requests for some time; return the outcomes, and times with the resident memory."""
    started, tally = time.monotonic(), Tally()
    end = started + seconds
    threads = [
        threading.Thread(
            target=Client(url, random.Random(rng.random()), sentences, answers, tally, end).run,
            daemon=True,
        )
        for _ in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    memory = []
    while (now := time.monotonic()) < end and process.status() is None:
        used = sum(resident(pid) for pid in members(process.mark))
        memory.append((now - started, used))
        time.sleep(min(1.0, max(end - now, 0.0)))
    for thread in threads:
        thread.join(120)
    return tally, memory


def summary(tally: Tally, memory: Sequence[tuple[float, int]], seconds: float) -> dict[str, Any]:
    """Return the figures of a load.

    Args:
        tally: The outcomes.
        memory: Seconds since the start, and resident bytes.
        seconds: Duration.
    """
    before = _median_memory(memory, 0.2 * seconds)
    after = _median_memory(memory, seconds - _WINDOW / 2)
    return {
        "seconds": seconds,
        "connections": CONNECTIONS,
        "outcomes": dict(sorted(tally.counts.items())),
        "p50 ms": percentile(tally.milliseconds, 50),
        "p99 ms": percentile(tally.milliseconds, 99),
        "memory at a fifth of the time, MB": round(before / 1e6, 1),
        "memory at the end, MB": round(after / 1e6, 1),
        "growth": round(after / before - 1, 4) if before else None,
    }


def _median_memory(memory: Sequence[tuple[float, int]], middle: float) -> float:
    near = [used for time, used in memory if abs(time - middle) <= _WINDOW / 2]
    return statistics.median(near) if near else 0.0


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that ``percent`` of all do not exceed; None without values."""
    if not values:
        return None
    return round(sorted(values)[math.ceil(len(values) * percent / 100) - 1], 1)


def judge(figures: dict[str, Any]) -> list[str]:
    """Return the faults that the figures show, apart from those of single requests."""
    faults = [
        f"{count} replies with status {status}"
        for status, count in figures["replies"].items()
        if status.startswith("5") and status != "503"
    ]
    if not figures["outcomes"].get("answered"):
        faults.append("no request was answered")
    if not figures["swaps"]:
        faults.append("no version was replaced")
    growth = figures["growth"]
    if figures["seconds"] >= JUDGED_SECONDS and (growth is None or growth > MEMORY_GROWTH):
        faults.append(f"memory: expected growth of at most {MEMORY_GROWTH:.0%}, got {growth}")
    return faults


def _metrics(url: str) -> str:
    parts = urlsplit(url)
    address = f"http://{parts.netloc}/monitoring/prometheus/metrics"
    with urllib.request.urlopen(address, timeout=30) as reply:
        return str(reply.read().decode())


def count_replies(metrics: str) -> dict[str, int]:
    """Return the number of the server's replies by status, from its metrics."""
    found = re.findall(r'_replies(?:_total)?\{[^}]*"(\d{3})"[^}]*\} (\d+)', metrics)
    return {status: int(count) for status, count in found}
