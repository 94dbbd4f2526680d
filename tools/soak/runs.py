"""Runs of the endurance test: a tiny network in several kinds, each with its reference."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from keras_transformer import system
from tools.soak.comparison import checkpoint_steps
from tools.soak.processes import Process, complete, resident
from tools.soak.trials import TrialError

EVERY = 4
"""Steps between two checkpoints."""

_NETWORK = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "d_model": 16,
    "heads": 2,
    "d_ff": 32,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
_TRAIN = {
    "max_steps": 48,
    "batch_tokens": 200,
    "warmup_steps": 20,
    "checkpoint_every": EVERY,
    "average": 3,
    "keep_best": 3,
    "best_by": "loss",
    "log_every": 1,
    "dev_sentences": 4,
}
# The rate is so high that the loss soon stops falling.
_STOPPING = {"max_steps": 400, "ema_decay": 0.9, "patience": 3, "learning_rate_factor": 6.0}


@dataclass(frozen=True)
class Kind:
    """A kind of training run.

    Args:
        options: Words of the command line.
        train: Fields of ``train`` that differ.
    """

    options: tuple[str, ...]
    train: dict[str, Any]


KINDS = {
    "device": Kind(("--devices", "cpu"), {}),
    "replicas": Kind(("--devices", "cpu:2"), {}),
    "workers": Kind(("--workers", "2"), {}),
    "bfloat16": Kind(("--devices", "cpu"), {"precision": "bfloat16"}),
    "stopping": Kind(("--devices", "cpu"), _STOPPING),
}


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run.

    Args:
        path: The run folder.
        startup: Seconds from the start of the process to the first checkpoint.
        seconds: Seconds of the whole process.
        final_step: The last step.
        peak: Greatest resident memory of the first process in bytes.
    """

    path: Path
    startup: float
    seconds: float
    final_step: int
    peak: int

    def left(self, step: int) -> float:
        """Return the expected life in seconds of a process that resumes after ``step``."""
        share = 1 - min(step / max(self.final_step, 1), 1.0)
        return self.startup + (self.seconds - self.startup) * share


class Runs:
    """Configurations and references in the folder of the test, made on first use.

    Args:
        folder: The folder of the test.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locks = {kind: threading.Lock() for kind in [*KINDS, "corpus"]}

    def words(self, kind: str, run: Path) -> list[str]:
        """Return the options that start a run, or resume it if its folder is there."""
        options = [*KINDS[kind].options, "--run", str(run)]
        if run.exists():
            return [*options, "--resume"]
        return [*options, "--config", str(self._config(kind))]

    def reference(self, kind: str) -> Reference:
        """Return the uninterrupted run of a kind.

        Raises:
            TrialError: The run failed.
        """
        folder = self.folder / "reference"
        file = folder / f"{kind}.json"
        with self._locks[kind]:
            if not file.exists():
                run = folder / kind
                shutil.rmtree(run, ignore_errors=True)
                folder.mkdir(parents=True, exist_ok=True)
                values = asdict(measured(self.words(kind, run), run))
                system.write_json(file, values | {"path": kind})
            values = json.loads(file.read_text(encoding="utf-8"))
            return Reference(**values | {"path": folder / values["path"]})

    def _config(self, kind: str) -> Path:
        """Write the configuration of a kind; return its file."""
        with self._locks["corpus"]:
            corpus = self.folder / "corpus"
            if not corpus.exists():
                _write_corpus(corpus)
            file = self.folder / f"{kind}.yaml"
            data = {
                "train": str((corpus / "train").resolve()),
                "dev": str((corpus / "dev").resolve()),
                "source": "a",
                "target": "b",
                "vocabulary_size": 300,
            }
            values = {"model": _NETWORK, "data": data, "train": _TRAIN | KINDS[kind].train}
            system.write_text(file, yaml.safe_dump(values))
            return file


def _write_corpus(folder: Path) -> None:
    """Write pairs of letters and the same letters reversed."""
    rng = random.Random(0)
    with system.atomic_folder(folder) as partial:
        for name, count in (("train", 300), ("dev", 20)):
            lines = [" ".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(count)]
            (partial / f"{name}.a").write_text("".join(f"{line}\n" for line in lines))
            (partial / f"{name}.b").write_text("".join(f"{line[::-1]}\n" for line in lines))


def measured(words: list[str], run: Path) -> Reference:
    """Train without a stop and measure time and memory.

    Raises:
        TrialError: The run failed.
    """
    process, peak, startup = Process("train", words), 0, 0.0
    while process.status() is None:
        peak = max(peak, resident(process.pid))
        if not startup and checkpoint_steps(run):
            startup = process.seconds
        time.sleep(0.02)
    seconds = process.seconds
    if process.wait():
        raise TrialError(f"the uninterrupted run failed:\n{process.log[-1500:]}")
    return Reference(run, startup, seconds, checkpoint_steps(run)[-1], peak)


def phrasebook_run(folder: Path, seed: int, steps: int = 100) -> Path:
    """Train a tiny network on the built-in corpus, unless that is done; return the run folder.

    Raises:
        TrialError: The run failed.
    """
    run = folder / f"phrasebook-{seed}"
    if not (run / "best.weights.h5").exists():
        shutil.rmtree(run, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        network = [
            f"--model.{name}={value}" for name, value in (_NETWORK | {"d_model": 32}).items()
        ]
        train = {
            "max_steps": steps,
            "batch_tokens": 2_000,
            "warmup_steps": 50,
            "checkpoint_every": steps,
            "dev_sentences": 0,
            "seed": seed,
        }
        options = [f"--train.{name}={value}" for name, value in train.items()]
        data = ["--data.vocabulary_size=1000", "--data.max_tokens=60"]
        search = ["--search.beam=2", "--search.max_extra=8"]
        complete(
            "train", ["--run", str(run), "--devices", "cpu", *network, *options, *data, *search]
        )
    return run
