"""Walks of docs/conversion.md with local models: each command as it is written there, timed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contestants.process import ROOT

from tests.docs import documents

Figures = dict[str, Any]

DOCUMENT = ROOT / "docs" / "conversion.md"
WALKS = (
    "OPUS-MT to TensorFlow Serving",
    "OpenNMT-tf to TensorFlow Serving",
    "Fine-tune an OPUS-MT model",
)
"""Headings of the walks."""
PORT = 8501
DATA = {"train": "train", "val": "val", "test": "test_2016_flickr"}
"""Files of the walks' own text, and those of Multi30k that stand in for it."""
_EXPORT = re.compile(r"keras_transformer\.export .*--to (\S+)")
_SERVE = re.compile(r"python -m keras_transformer\.serve (\S+)")
_REQUEST = '{"inputs": {"text": ["A dog runs."]}}\n'


def follow(models: Path, data: Path) -> list[Figures]:
    """Run the commands of all walks in a new folder.

    Args:
        models: Folder with the models under the names that the walks use.
        data: Folder with ``multi30k/``.

    Returns:
        For each command ``walk``, ``command``, ``seconds``, ``mib`` (peak memory of its largest
        process) and ``output``, the end of what it prints.

    Raises:
        SystemExit: A command failed, or the port of the server is in use.
    """
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            raise SystemExit(f"port {PORT}: expected free, is in use")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _furnish(work, models, data)
        for walk in WALKS:
            with _Server(work) as server:
                for command in commands(walk):
                    for row in _steps(command, work, server):
                        rows.append({"walk": walk, **row})
                        print(json.dumps(rows[-1], ensure_ascii=False), file=sys.stderr, flush=True)
    return rows


def commands(walk: str) -> Iterator[str]:
    """Yield the commands below a heading of the document, each on one line."""
    text = DOCUMENT.read_text(encoding="utf-8")
    first = text[: text.index(f"\n## {walk}\n")].count("\n") + 2
    after = re.search(r"(?m)^## ", text[text.index(f"\n## {walk}\n") + 4 :])
    last = text.count("\n") if after is None else None
    if after is not None:
        place = text.index(f"\n## {walk}\n") + 4 + after.start()
        last = text[:place].count("\n") + 1
    for block in documents.blocks(DOCUMENT):
        if block.language == "sh" and not block.reason and first <= block.line < (last or 0):
            for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
                if line.strip() and not line.startswith("#"):
                    yield line.strip()


def _furnish(work: Path, models: Path, data: Path) -> None:
    for model in models.iterdir():
        (work / model.name).symlink_to(model.resolve())
    (work / "data").mkdir()
    for name, theirs in DATA.items():
        for language in ("en", "de"):
            file = data / "multi30k" / f"{theirs}.{language}"
            (work / "data" / f"{name}.{language}").symlink_to(file.resolve())
    programs = work / "bin"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)


def _steps(command: str, work: Path, server: _Server) -> Iterator[Figures]:
    """Run a command; yield its figures, and those of an export in TensorFlow's C++ runtime."""
    if served := _SERVE.match(command):
        yield {"command": command, **server.start(command, Path(served[1]).name)}
        return
    yield {"command": command, **run(command, work)}
    if exported := _EXPORT.search(command):
        session = f"python -m tests.support.tf_c_session {exported[1]}/1"
        yield {"command": session, **run(session, work, _REQUEST)}


def run(command: str, work: Path, given: str = "") -> Figures:
    """Run a shell command and measure it.

    Raises:
        SystemExit: It failed.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as text:
        text.write(given)
        text.seek(0)
        start = time.perf_counter()
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", command], cwd=work, env=_environment(work),
            stdin=text, stdout=output, stderr=output,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        output.seek(0)
        said = output.read()
    if process.returncode:
        raise SystemExit(f"{command}\n{said[-3000:]}")
    return {"seconds": seconds, "mib": usage.ru_maxrss / 1024, "output": said.strip()[-300:]}


class _Server:
    """Local server of a walk.

    Args:
        work: Folder of the walk.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: str, name: str) -> Figures:
        """Start it and wait until the model is there.

        Raises:
            SystemExit: It ended.
        """
        start = time.perf_counter()
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self._work, env=_environment(self._work),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/models/{name}") as reply:
                    reply.read()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        else:
            raise SystemExit(f"{command}: ended with {self._process.returncode}")
        seconds = time.perf_counter() - start
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        return {"seconds": seconds, "mib": int(peak[1]) / 1024 if peak else 0.0, "output": ""}

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)


def _environment(work: Path) -> dict[str, str]:
    path = f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
