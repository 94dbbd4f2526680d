"""Memory of a training step: blockwise attention and gradient checkpointing.

  python benchmarks/memory.py --workload attention
  python benchmarks/memory.py --workload step
  python benchmarks/memory.py --plot memory.png

- attention: forward and backward pass of one self-attention layer of the base model (8 heads of
  64, attention dropout 0.1, padding), at growing lengths with the same number of sentences;
  blockwise attention also in a decoder, where half of the blocks are masked and skipped.
- step: a whole step of the base model (vocabulary 32,000, loss, Adam) on long and short sentences.

Each case runs in its own process. After a warm-up step on a few tokens the peak resident size is
reset (Linux, /proc/self/clear_refs). "MiB" is the peak during one step minus the resident size
before it: the memory of the step beyond weights, Adam's moments and the program. The time is
that of the fastest of --repeats later steps: wall-clock time and, in brackets, processor time of
all cores, which is the better figure on a busy machine.

A case that would need more than --limit is not run. Its figure is that of half the length
times four, and marked as estimated: plain attention keeps matrices of length x length.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

LENGTHS = (512, 1024, 2048, 4096)
SENTENCES = 8  # of the workload attention
SHAPES = ((4, 512), (32, 64))  # sentences and tokens of each, of the workload step
WORKLOADS = ("attention", "step")
MIB = 1024

Figures = dict[str, Any]


def memory(key: str) -> float:
    """Return an entry of /proc/self/status, in MiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / MIB for line in file if line.startswith(key))


def attention_step(case: Figures) -> Callable[[int, int], Any]:
    """Return the forward and backward pass of a layer as a function of batch size and length."""
    import tensorflow as tf

    from keras_transformer.model.attention import MultiHeadAttention

    layer = MultiHeadAttention(512, 8, 64, 64, 0.1, attention=case["attention"])
    layer.build()
    weights = [weight.value for weight in layer.weights]
    width = tf.TensorSpec([None, None, 512])

    @tf.function(input_signature=[width, tf.TensorSpec([None, 1, 1, None], tf.bool), width])
    def step(x: tf.Tensor, mask: tf.Tensor, upstream: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, x, mask, causal=case["causal"], training=True)
        return tape.gradient(y, [x, *weights], upstream)

    def run(sentences: int, length: int) -> Any:
        x = tf.random.stateless_normal([sentences, length, 512], [1, 2])
        lengths = tf.random.stateless_uniform([sentences], [3, 4], length // 2, length, tf.int32)
        return lambda: step(x, tf.sequence_mask(lengths, length)[:, None, None], x)

    return run


def model_step(case: Figures) -> Callable[[int, int], Any]:
    """Return a step of the base model as a function of batch size and length."""
    import keras
    import tensorflow as tf

    from keras_transformer.config import ModelConfig
    from keras_transformer.model import transformer
    from keras_transformer.training.fused_loss import projected_loss

    vocabulary = 32_000
    config = ModelConfig(vocabulary, vocabulary, attention=case["attention"])
    model = transformer.build(config, gradient_checkpointing=case["gradient_checkpointing"])
    features, matrix = transformer.features(model), transformer.projection(model).matrix
    variables = model.trainable_variables
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(variables)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def step(ids: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            hidden = features({"source": ids, "target": ids}, training=True)
            loss = projected_loss(hidden, matrix, ids, smoothing=0.1).loss
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        optimizer.apply(list(map(tf.convert_to_tensor, gradients)), variables)

    def run(sentences: int, length: int) -> Any:
        shape = [sentences, length]
        ids = tf.random.stateless_uniform(shape, [1, 2], 4, vocabulary, tf.int32)
        return lambda: step(ids)

    return run


def measure(case: Figures) -> Figures:
    """Measure memory and time of a case, in its own process."""
    prepare = (attention_step if case["workload"] == "attention" else model_step)(case)
    prepare(2, 8)()
    run = prepare(case["sentences"], case["length"])
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = memory("VmRSS")
    run()
    peak = memory("VmHWM") - before
    seconds, worked = [], []
    for _ in range(case["repeats"]):
        started = time.perf_counter(), time.process_time()
        run()
        seconds.append(time.perf_counter() - started[0])
        worked.append(time.process_time() - started[1])
    times = {"seconds": min(seconds), "processor_seconds": min(worked)}
    return case | times | {"mib": peak, "estimated": False}


def in_process(case: Figures, kept: list[Figures]) -> Figures:
    """Run `measure` in a new process, or return the known result of the case."""
    for row in kept:
        if case.items() <= row.items():
            return row
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{case}: failed\n{done.stderr}")
    row = json.loads(done.stdout.splitlines()[-1])
    print(f"{row['name']} {row['sentences']} x {row['length']}: {cell(row)}", file=sys.stderr)
    return row


def attention(arguments: argparse.Namespace, kept: list[Figures]) -> Iterator[Figures]:
    """Measure one layer at growing lengths."""
    for name, kind, causal in (
        ("plain", "plain", False),
        ("blockwise", "blockwise", False),
        ("blocks, decoder", "blockwise", True),
    ):
        last: Figures | None = None
        for length in arguments.lengths:
            case = {"workload": "attention", "name": name, "attention": kind, "causal": causal}
            case |= {"sentences": SENTENCES, "length": length, "repeats": arguments.repeats}
            expected = last["mib"] * (length / last["length"]) ** 2 if last else 0.0
            if kind == "plain" and expected > arguments.limit * MIB:
                last = case | {"mib": expected, "estimated": True}
            else:
                last = in_process(case, kept)
            yield last


def step(arguments: argparse.Namespace, kept: list[Figures]) -> Iterator[Figures]:
    """Measure the base model."""
    for sentences, length in SHAPES:
        for kind, gradient_checkpointing in (
            ("plain", False),
            ("plain", True),
            ("blockwise", True),
        ):
            case = {
                "workload": "step",
                "name": f"{kind}{', gradient_checkpointing' if gradient_checkpointing else ''}",
            }
            case |= {
                "attention": kind,
                "gradient_checkpointing": gradient_checkpointing,
                "sentences": sentences,
            }
            yield in_process(case | {"length": length, "repeats": arguments.repeats}, kept)


def table(rows: list[Figures]) -> str:
    """Return the figures as Markdown."""
    cases = list(dict.fromkeys((row["sentences"], row["length"]) for row in rows))
    head = ["", *(f"{sentences} x {length}" for sentences, length in cases)]
    lines = [head, ["---" for _ in head]]
    for name in dict.fromkeys(row["name"] for row in rows):
        own = {(row["sentences"], row["length"]): row for row in rows if row["name"] == name}
        lines.append([name, *(cell(own[case]) for case in cases)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(row: Figures) -> str:
    """Format MiB and seconds."""
    if row["estimated"]:
        return f"{row['mib']:,.0f} MiB (estimated)"
    return f"{row['mib']:,.0f} MiB, {row['seconds']:.2f} s ({row['processor_seconds']:.2f})"


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workload", choices=WORKLOADS, nargs="+", default=WORKLOADS, help="(default: both)"
    )
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=LENGTHS, metavar="LENGTH",
        help=f"tokens of a sentence, for attention (default: {' '.join(map(str, LENGTHS))})",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=1, help="steps timed (default: 1)")
    parser.add_argument("--limit", type=float, default=12.0, help="GiB (default: 12)")
    parser.add_argument(
        "--json", type=Path, help="file that keeps figures: a case in it is not run again"
    )
    parser.add_argument("--plot", type=Path, help="picture of both workloads")
    parser.add_argument(
        "--venvs", type=Path, default=ROOT / ".venv" / "peers",
        help="folder of the environment that draws (default: .venv/peers)",
    )  # fmt: skip
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, print and, if asked, write a report."""
    arguments = parse()
    if arguments.case:
        print(json.dumps(measure(arguments.case)))
        return
    kept: list[Figures] = []
    if arguments.json and arguments.json.is_file():
        kept = json.loads(arguments.json.read_text(encoding="utf-8"))
    results: dict[str, list[Figures]] = {}
    for workload in arguments.workload:
        results[workload] = []
        for row in {"attention": attention, "step": step}[workload](arguments, kept):
            results[workload].append(row)
            if arguments.json and row not in kept:
                kept.append(row)
                arguments.json.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        print(f"\n{workload}, sentences x tokens:\n\n{table(results[workload])}")
    if arguments.plot:
        from contestants import environments

        drawing = [environments.python(arguments.venvs, "plot"), ROOT / "benchmarks" / "plot.py"]
        subprocess.run(
            [*drawing, arguments.plot],
            input=json.dumps({"workload": "memory", "results": results}),
            text=True,
            check=True,
        )


if __name__ == "__main__":
    main()
