"""Threads per operation against parallel batches, in the C++ session of a server.

  python benchmarks/threads.py export/models/en-de/1 --sentences FILE

Prints milliseconds for each sentence, by the clock, the better of ``--repeat`` passes: for each
number of threads that an operation may use, and each size of a run, with one run at a time and
with as many as there are processors. Each setting has a process of its own.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SIZES = ((1, 24), (8, 64), (32, 128))  # sentences in a run, sentences in all


def measure(folder: Path, lines: list[str], threads: int, repeat: int) -> dict[str, float]:
    """Measure milliseconds per sentence of a setting, in its own process."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations of tokenizers

    v1 = tf.compat.v1
    processors = len(os.sched_getaffinity(0))
    texts = [line.encode() for line in lines]
    config = v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=processors
    )
    found = {}
    with v1.Session(graph=tf.Graph(), config=config) as session:
        signature = v1.saved_model.load(session, ["serve"], str(folder)).signature_def["translate"]
        place = signature.inputs["text"].name
        outputs = [output.name for output in signature.outputs.values()]

        def run(first: int, size: int) -> None:
            session.run(outputs, {place: texts[first : first + size]})

        for size, total in SIZES:
            run(0, size)
            for at_once in (1, processors):
                passes = []
                for _ in range(repeat):
                    started = time.perf_counter()
                    with ThreadPoolExecutor(at_once) as pool:
                        list(pool.map(functools.partial(run, size=size), range(0, total, size)))
                    passes.append(1000 * (time.perf_counter() - started) / total)
                found[f"{size} x {at_once}"] = min(passes)
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a version folder of an exported model")
    parser.add_argument("--sentences", type=Path, required=True, help="at least 128 lines of text")
    parser.add_argument("--repeat", type=int, default=3, help="passes (default: 3)")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    lines = arguments.sentences.read_text(encoding="utf-8").splitlines()
    if len(lines) < SIZES[-1][1]:
        parser.error(f"--sentences: expected {SIZES[-1][1]} lines or more, got {len(lines)}")
    if arguments.threads is not None:
        found = measure(arguments.folder, lines, arguments.threads, arguments.repeat)
        print(json.dumps(found))
        return
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        command = [sys.executable, *sys.argv, "--threads", str(threads)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        figures = json.loads(done.stdout.splitlines()[-1])
        print(f"{threads} threads for an operation, sentences in a run x runs at a time:")
        print("   ".join(f"{name}: {value:.1f} ms" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
