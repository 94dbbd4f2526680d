"""What one GPU does in ten minutes: training, decoding, resuming, memory.

  python benchmarks/gpu.py --json gpu.json
  python benchmarks/gpu.py --quick             # tiny sizes, also on a CPU: does it run?

- training: base and big on random ids with the lengths of WMT14; source and target tokens per
  second, end tokens included, padding excluded; the share of the device's own product rate, that
  of large matrices in the same precision, measured first. Float32 uses TF32 where there is one.
- memory: the most memory in use for batches of several sizes.
- decoding: beam search and greedy search with random weights of base.
- resuming: a run with `train.deterministic`, once without a stop and once resumed in the middle;
  all tensors of the last checkpoint must be equal to the last bit.

Each measurement runs in a process of its own, after some steps to warm up. One that the time
would not suffice for is left out, and the report says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from report import markdown

ROOT = Path(__file__).resolve().parents[1]

Figures = dict[str, Any]
BATCHES = (6_250, 12_500, 25_000, 50_000, 100_000)
TINY_SIZES = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}


class Budget:
    """The time that is left."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes
        self.left_out: list[str] = []

    def allows(self, name: str, seconds: float = 30.0) -> bool:
        """Return whether there is time for a measurement; otherwise remember its name."""
        enough = time.monotonic() + seconds < self._end
        if not enough:
            self.left_out.append(name)
        return enough


def run_task(settings: Figures) -> Figures:
    """Measure in another process."""
    print(".", end="", file=sys.stderr, flush=True)
    script = str(ROOT / "benchmarks" / "gpu_task.py")
    done = subprocess.run(
        [sys.executable, script, json.dumps(settings)], stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        return {"failed": done.returncode}
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def training_cases(precision: str, quick: bool) -> list[tuple[str, Figures]]:
    """Return the name and the fields of ``train`` of each case; the name begins with the model."""
    fast = {"precision": precision, "batch_tokens": 25_000}
    cases: list[tuple[str, Figures]] = [
        ("base", fast),
        ("base, float32", fast | {"precision": "float32"}),
        ("big", fast),
        *((f"base, {tokens:,} tokens", fast | {"batch_tokens": tokens}) for tokens in BATCHES),
        ("base, deterministic", fast | {"deterministic": True}),
        ("big, micro-batches of 6,250", fast | {"micro_batch_tokens": 6_250}),
        ("base, gradient checkpointing", fast | {"gradient_checkpointing": True}),
        ("base, XLA", fast | {"jit": True}),  # compiles a dozen shapes first
    ]
    cases = [case for case in cases if case[0] != "base, 25,000 tokens"]
    if quick:
        chosen = ("base", "base, deterministic", "big, micro-batches of 6,250")
        small = {"batch_tokens": 400, "micro_batch_tokens": 200}
        cases = [
            (name, fields | {key: value for key, value in small.items() if key in fields})
            for name, fields in cases
            if name in chosen
        ]
    return cases


def measure_training(rates: Figures, shared: Figures, quick: bool, budget: Budget) -> list[Figures]:
    """Train each case, and compare it with the product rate."""
    rows = []
    for name, fields in training_cases(rates["precision"], quick):
        needed = 300 if "jit" in fields else 20 + 2 * shared["seconds"]
        if not budget.allows(f"training {name}", needed):
            continue
        model = name.partition(",")[0]
        found = run_task(shared | {"task": "train", "model": model, "train": fields})
        if "operations_per_second" in found:
            found["share"] = found["operations_per_second"] / rates[fields["precision"]]
        rows.append({"case": name, "train": fields} | found)
    return rows


def measure_decoding(rates: Figures, shared: Figures, quick: bool, budget: Budget) -> list[Figures]:
    """Decode batches and single sentences with base."""
    # A search computes in bfloat16 or float32.
    dtype = "bfloat16" if rates["precision"] == "bfloat16" else "float32"
    cases = [(dtype, beam, sentences) for sentences in (256, 1) for beam in (4, 1)]
    cases += [("float32", 4, 256)] if dtype != "float32" else []
    if quick:
        cases = [(dtype, 4, 3)]
    rows = []
    for dtype, beam, sentences in cases:
        name = f"beam {beam}, {sentences} sentences, {dtype}"
        if not budget.allows(f"decoding {name}"):
            continue
        case = {"dtype": dtype, "beam": beam, "sentences": sentences, "length": 8 if quick else 28}
        found = run_task(shared | {"task": "decode", "model": "base", "train": {}} | case)
        rows.append({"case": name} | found)
    return rows


def measure_resuming(quick: bool, precision: str, budget: Budget) -> Figures:
    """Train the built-in corpus twice, resumed once; compare the last checkpoints."""
    if not budget.allows("resuming", 10 if quick else 90):
        return {}
    every, steps = (2, 4) if quick else (40, 80)
    options = ["--preset", "demo", "--train.deterministic", "true", "--train.dev_sentences", "0"]
    options += ["--train.checkpoint_every", str(every), "--train.precision", precision]
    if quick:
        options += [f"--model.{name}={value}" for name, value in TINY_SIZES.items()]
    with tempfile.TemporaryDirectory() as folder:
        runs = [str(Path(folder) / name) for name in ("whole", "resumed")]
        command = [sys.executable, "-m", "keras_transformer.train"]
        calls = [
            [*options, "--run", runs[0], "--train.max_steps", str(steps)],
            [*options, "--run", runs[1], "--train.max_steps", str(every)],
            ["--resume", "--run", runs[1], "--train.max_steps", str(steps)],
        ]
        for call in calls:
            print(".", end="", file=sys.stderr, flush=True)
            done = subprocess.run(
                [*command, *call], cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ
            )
            if done.returncode:
                return {"failed": done.returncode, "message": done.stderr[-2_000:]}
        return run_task({"task": "compare", "runs": runs, "step": steps})


def training_table(rows: list[Figures]) -> str:
    """Return the training cases as Markdown."""
    head = ["case", "precision", "tokens/s", "ms a step", "TFLOP/s", "share of the products", "MiB"]
    body = []
    for row in rows:
        start = [row["case"], row["train"]["precision"]]
        if "tokens_per_second" not in row:
            why = "out of memory" if row.get("out_of_memory") else f"failed, {row['failed']}"
            body.append([*start, why, "", "", "", ""])
            continue
        body.append(
            [
                *start,
                f"{row['tokens_per_second']:,.0f}",
                f"{row['milliseconds_per_step']:,.1f}",
                f"{row['operations_per_second'] / 1e12:.2f}",
                f"{row['share']:.0%}",
                f"{row['mebibytes']:,.0f}",
            ]
        )
    return markdown(head, body)


def decoding_table(rows: list[Figures]) -> str:
    """Return the decoding cases as Markdown."""
    body = [
        [
            row["case"],
            f"{row['sentences_per_second']:,.1f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['milliseconds']:,.0f}",
            f"{row['mebibytes']:,.0f}",
        ]
        for row in rows
        if "milliseconds" in row
    ]
    return markdown(["case", "sentences/s", "tokens/s", "ms a batch", "MiB"], body)


def resuming_line(found: Figures) -> str:
    """Return the result of the comparison of two runs."""
    if not found:
        return "Resuming: left out"
    if "failed" in found:
        return f"Resuming: failed with status {found['failed']}: {found.get('message', '')}"
    different = found["different"]
    result = f"{different} differ" if different else "all equal to the last bit"
    return f"Resuming, deterministic: {found['tensors']} tensors, {result}"


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="(default: 10)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a case (default: 8)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, a few cases")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args()


def main() -> None:
    """Measure, print and, if asked, write a report."""
    arguments = parse()
    quick, budget = arguments.quick, Budget(arguments.minutes)
    seconds = 0.2 if quick else arguments.seconds
    rates = run_task({"task": "device", "size": 256 if quick else 8192, "seconds": seconds / 4})
    if "failed" in rates:
        sys.exit("TensorFlow does not start; see its message above")
    shared: Figures = {"vocabulary": 500 if quick else 37_000, "seconds": seconds}
    shared |= {"pairs": 500 if quick else 100_000, "warm": 2 if quick else 12}
    shared |= {"sizes": TINY_SIZES if quick else {}}
    resumed = measure_resuming(quick, rates["precision"], budget)
    training = measure_training(rates, shared, quick, budget)
    decoding = measure_decoding(rates, shared, quick, budget)
    print(file=sys.stderr)
    products = ", ".join(
        f"{dtype} {rates[dtype] / 1e12:.2f}"
        for dtype in ("float32", "bfloat16", "float16")
        if dtype in rates
    )
    print(f"{rates['device']}, TensorFlow {rates['tensorflow']}; products in TFLOP/s: {products}")
    print(f"\nTraining:\n\n{training_table(training)}\n\nDecoding with base:\n")
    print(f"{decoding_table(decoding)}\n\n{resuming_line(resumed)}")
    if budget.left_out:
        print(f"Left out for lack of time: {'; '.join(budget.left_out)}")
    if arguments.json:
        report = {"device": rates, "training": training, "decoding": decoding, "resumed": resumed}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
