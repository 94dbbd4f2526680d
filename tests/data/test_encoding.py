"""Encoding in worker processes: the order of the pairs, and the end of every process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.config import DataConfig
from keras_transformer.data import encoding
from keras_transformer.data import pairs as pairs_module
from keras_transformer.data.encoding import EncodingError, encode_pairs
from keras_transformer.data.pairs import Pair
from keras_transformer.data.tokenizer import Tokenizer

PAIRS = [
    Pair(n, f"line {n} of {'many ' * (n % 5)}", f"Zeile {n}\ud800" * (n % 3)) for n in range(60)
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = [pair.source for pair in PAIRS]
    return Tokenizer.train(lines, lines, DataConfig(vocabulary_size=320))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "BLOCK_SIZE", 4)
    monkeypatch.setattr(encoding, "BLOCKS_BEFORE_WORKERS", 2)


def rows(tokenizer: Tokenizer, workers: int) -> list[tuple[Pair, list[int], list[int]]]:
    found = []
    for pairs, source, target in encode_pairs(iter(PAIRS), tokenizer, workers):
        assert source.ids.dtype == source.lengths.dtype == np.int32
        sides = [np.split(side.ids, np.cumsum(side.lengths)[:-1]) for side in (source, target)]
        found += [(pair, s.tolist(), t.tolist()) for pair, s, t in zip(pairs, *sides, strict=True)]
    return found


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_ids(tokenizer: Tokenizer, workers: int) -> None:
    sources = tokenizer.source.encode([pair.source for pair in PAIRS])
    targets = tokenizer.target.encode([pair.target for pair in PAIRS])

    assert rows(tokenizer, workers) == list(zip(PAIRS, sources, targets, strict=True))


def test_few_pairs_start_no_process(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BLOCKS_BEFORE_WORKERS", 15)  # 15 blocks of 4 are all
    monkeypatch.setattr(encoding.subprocess, "Popen", None)  # calling it would fail

    assert len(rows(tokenizer, workers=2)) == 60


def test_the_stream_is_read_a_few_blocks_ahead(tokenizer: Tokenizer) -> None:
    read = 0

    def endless() -> Iterator[Pair]:
        nonlocal read
        while True:
            read += 1
            yield Pair(read, "line", "Zeile")

    stream = encode_pairs(endless(), tokenizer, workers=2)
    for _ in range(20):
        next(stream)

    assert read <= (20 + 2 * 2 + 2) * 4
    stream.close()


def test_every_process_ends_with_the_stream(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen] = []

    class Watched(subprocess.Popen):
        def __init__(self, *arguments, **options) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(encoding.subprocess, "Popen", Watched)

    rows(tokenizer, workers=2)
    stream = encode_pairs(iter(PAIRS), tokenizer, workers=2)
    for _ in range(4):
        next(stream)
    stream.close()  # as after an error or Ctrl-C

    assert len(started) == 4
    assert all(process.poll() is not None for process in started)


def test_a_killed_worker_is_reported(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    send = encoding._send
    sent = 0

    def killing(process: subprocess.Popen, value: object) -> None:
        nonlocal sent
        sent += 1
        if sent == 7:
            process.kill()
            process.wait()
        send(process, value)

    monkeypatch.setattr(encoding, "_send", killing)
    with pytest.raises(EncodingError, match=r"killed by signal 9, .*: nothing is prepared"):
        rows(tokenizer, workers=2)


def test_a_failing_worker_is_reported(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_WORKER_SCRIPT", "raise SystemExit(3)")
    with pytest.raises(EncodingError, match="ended with status 3"):
        rows(tokenizer, workers=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(
    tokenizer: Tokenizer, tmp_path: Path, number: signal.Signals
) -> None:
    tokenizer.save(tmp_path)
    script = textwrap.dedent(
        """
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        from pathlib import Path
        from keras_transformer.data import encoding, pairs
        from keras_transformer.data.tokenizer import Tokenizer
        pairs.BLOCK_SIZE = encoding.BLOCKS_BEFORE_WORKERS = 2
        stream = (pairs.Pair(n, "line", "Zeile") for n in range(10**9))
        tokenizer = Tokenizer.load(Path(sys.argv[1]))
        for count, _ in enumerate(encoding.encode_pairs(stream, tokenizer, 2)):
            if count == 20:
                print("encoding", flush=True)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout
    assert process.stdout.readline() == "encoding\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2

    process.send_signal(number)
    try:
        # The workers write errors to the same pipe, which ends when all have ended.
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode != 0
    assert errors.count("Traceback") == (1 if number == signal.SIGINT else 0)
    deadline = time.monotonic() + 30
    while any(_is_running(int(child)) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_is_running(int(child)) for child in children)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A zombie is still listed.
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
