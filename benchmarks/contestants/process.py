"""Contestant in its own process, seen from the benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
_PAUSE = 0.5  # seconds, until threads of the one before have gone to sleep


@dataclass(frozen=True)
class Contestant:
    """Contestant of a benchmark.

    Args:
        name: As printed.
        script: In this folder.
        environment: Of ``environments``; empty: this package's own.
        dtype: Of its arithmetic.
    """

    name: str
    script: str
    environment: str
    dtype: str


CONTESTANTS = {
    "ours": Contestant("ours, float32", "ours.py", "", "float32"),
    "ours-bfloat16": Contestant("ours, bfloat16", "ours.py", "", "bfloat16"),
    "opennmt-tf": Contestant("OpenNMT-tf, float32", "opennmt_tf.py", "opennmt-tf", "float32"),
    "ctranslate2": Contestant("CTranslate2, float32", "ct2.py", "ctranslate2", "float32"),
    "ctranslate2-int8": Contestant("CTranslate2, int8", "ct2.py", "ctranslate2", "int8"),
}


@dataclass
class Case:
    """Measurements of one contestant in one case."""

    seconds: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    memory: float = 0.0
    outputs: list[Any] = field(default_factory=list)


class Running:
    """Running contestant that has loaded its model.

    Args:
        contestant: Which one.
        python: Its interpreter.
        settings: For its script.
    """

    def __init__(self, contestant: Contestant, python: str, settings: dict[str, Any]) -> None:
        self.contestant = contestant
        self.log = Path(settings["folder"]) / f"{contestant.name}.log"
        with self.log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command(contestant, python, settings | {"dtype": contestant.dtype}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(python),
            )
        ready = self._read()
        self.memory: float = ready["memory"]
        self.versions: dict[str, str] = ready["versions"]

    def ask(self, request: dict[str, Any], case: Case | None = None) -> float:
        """Send a request, record its seconds in ``case`` and return them."""
        assert self._process.stdin is not None
        time.sleep(_PAUSE)
        print(json.dumps(request), file=self._process.stdin, flush=True)
        reply = self._read()
        if case is not None:
            case.seconds.append(reply["seconds"])
            case.worked.append(reply["worked"])
            case.memory, case.outputs = reply["memory"], reply["outputs"]
        return reply["seconds"]

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self.log.read_text(encoding="utf-8")[-2000:]
            raise SystemExit(f"{self.contestant.name} ended:\n{said}")
        return json.loads(line)


def prepare(contestant: Contestant, python: str, settings: dict[str, Any]) -> None:
    """Run a contestant's ``prepare``."""
    done = subprocess.run(
        command(contestant, python, settings | {"task": "prepare", "dtype": "float32"}),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(python),
    )
    if done.returncode:
        raise SystemExit(f"{contestant.name} was not prepared:\n{done.stderr[-2000:]}")


def command(contestant: Contestant, python: str, settings: dict[str, Any]) -> list[str]:
    """Return the command line of a contestant."""
    return [python, str(FOLDER / contestant.script), json.dumps(settings)]


def environment(python: str) -> dict[str, str]:
    """Return environment variables: only our own interpreter finds this package."""
    path = {"PYTHONPATH": str(ROOT)} if python == sys.executable else {}
    return os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | path
