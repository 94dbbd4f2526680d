"""Training with and without the settings of `tune_allocator`.

  python benchmarks/allocator.py
  python benchmarks/allocator.py --models tiny --rounds 3 --json allocator.json

For each model two processes train on the same random batches, one with the settings, one without.
They take some steps in turn, in alternating order, while the other sleeps. The shape of the batch
changes with every step, within --batch_tokens. Tokens are those of source and target. Page faults
are minor ones: each is a page that the kernel clears, of 4 KiB, or of 2 MiB where transparent huge
pages are on (/sys/kernel/mm/transparent_hugepage/enabled), so look at the time of the processors in
the kernel too. The figures are medians over the rounds; the peak memory is that of the whole
process (Linux).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from keras_transformer.allocator import VARIABLE, tune_allocator  # noqa: E402

LENGTHS = (12, 20, 32, 26, 16, 48, 40, 64)
"""Source and target lengths of successive batches; the rows fill the token budget."""
SETTINGS = ("default", "tuned")

Figures = dict[str, Any]


def shapes(steps: int, batch_tokens: int) -> list[tuple[int, int]]:
    """Return (rows, length) of each step.

    Args:
        steps: Number of steps.
        batch_tokens: Target tokens of a batch.
    """
    lengths = (LENGTHS[step % len(LENGTHS)] for step in range(steps))
    return [(max(batch_tokens // length, 1), length) for length in lengths]


def train(name: str, batch_tokens: int) -> None:
    """Take as many steps as each line of standard input says, and print their figures as JSON."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the libraries' output
    tuned = tune_allocator()
    import keras
    import numpy as np
    import tensorflow as tf

    from keras_transformer.presets import preset
    from keras_transformer.training.step import build_model

    config, vocabulary = preset(name), 10_000
    sizes = {"source_vocabulary_size": vocabulary, "target_vocabulary_size": vocabulary}
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, **sizes))
    keras.utils.set_random_seed(1)
    model, random = build_model(config, 1), np.random.default_rng(1)

    @tf.function(reduce_retracing=True, autograph=False)
    def step(inputs: Any, labels: tf.Tensor) -> tf.Tensor:
        return model.train_step((inputs, labels))["loss"]

    print(json.dumps({"tuned": tuned}), file=replies, flush=True)
    for line in sys.stdin:
        tokens, before, started = 0, resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        for rows, length in shapes(int(line), batch_tokens):
            ids = tf.constant(random.integers(4, vocabulary, (rows, length)), tf.int32)
            step({"source": ids, "target": ids}, ids).numpy()
            tokens += 2 * rows * length
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
        figures = {
            "tokens_per_second": tokens / seconds,
            "faults": after.ru_minflt - before.ru_minflt,
            "kernel_seconds": after.ru_stime - before.ru_stime,
            "peak_mib": after.ru_maxrss / 1024,
        }
        print(json.dumps(figures), file=replies, flush=True)


class Trainee:
    """A process that trains.

    Args:
        name: The preset.
        setting: One of `SETTINGS`.
        batch_tokens: Target tokens of a batch.
    """

    def __init__(self, name: str, setting: str, batch_tokens: int) -> None:
        own = {VARIABLE: str(int(setting == "tuned")), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--train", name, "--batch_tokens", str(batch_tokens)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | own | {"KERAS_BACKEND": "tensorflow"},
        )
        if self._read()["tuned"] != (setting == "tuned"):
            raise SystemExit(f"{setting}: the allocator of this machine cannot be tuned")

    def steps(self, count: int) -> Figures:
        """Take steps and return their figures."""
        assert self._process.stdin is not None
        print(count, file=self._process.stdin, flush=True)
        return self._read()

    def end(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)

    def _read(self) -> Figures:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a training process ended; its message is above")
        return json.loads(line)


def measure(name: str, arguments: argparse.Namespace) -> list[Figures]:
    """Train a model with both settings in turn; return a row for each."""
    trainees = {one: Trainee(name, one, arguments.batch_tokens) for one in SETTINGS}
    rounds: dict[str, list[Figures]] = {one: [] for one in SETTINGS}
    steps = len(LENGTHS)
    for trainee in trainees.values():
        trainee.steps(arguments.warm * steps)
    for turn in range(arguments.rounds):
        for one in SETTINGS if turn % 2 == 0 else reversed(SETTINGS):
            rounds[one].append(trainees[one].steps(arguments.passes * steps))
    for trainee in trainees.values():
        trainee.end()
    return [
        {"model": name, "setting": one, **figures(rounds[one], arguments.passes * steps)}
        for one in SETTINGS
    ]


def figures(rounds: list[Figures], steps: int) -> Figures:
    """Return the medians of the rounds.

    Args:
        rounds: From `Trainee.steps`.
        steps: Steps of a round.
    """
    return {
        "tokens_per_second": median(one["tokens_per_second"] for one in rounds),
        "faults_per_step": median(one["faults"] for one in rounds) / steps,
        "kernel_ms_per_step": 1000 * median(one["kernel_seconds"] for one in rounds) / steps,
        "peak_mib": max(one["peak_mib"] for one in rounds),
    }


def table(rows: list[Figures]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| model | allocator | tokens/s | times | faults / step | kernel ms / step | peak MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    default = {row["model"]: row for row in rows if row["setting"] == "default"}
    for row in rows:
        times = row["tokens_per_second"] / default[row["model"]]["tokens_per_second"]
        lines.append(
            f"| `{row['model']}` | {row['setting']} | {row['tokens_per_second']:,.0f} "
            f"| {times:.2f} | {row['faults_per_step']:,.0f} "
            f"| {row['kernel_ms_per_step']:.0f} | {row['peak_mib']:,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["tiny", "base"], help="presets")
    parser.add_argument("--batch_tokens", type=int, default=4096, help="target tokens of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--passes", type=int, default=1, help="passes over the shapes in a round")
    parser.add_argument("--warm", type=int, default=2, help="passes before the first round")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments.batch_tokens)
        return
    rows = [row for name in arguments.models for row in measure(name, arguments)]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
