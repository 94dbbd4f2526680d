"""Recurrent baseline compared with the Transformer: parallelism, decoding and path length.

  python benchmarks/recurrent.py --json docs/recurrent.json --plot docs/images/recurrent.png

- training: a step of the presets `rnn` and `tiny` on batches of equal tokens, as sentences grow.
- decoding: beam search with random weights and translations of a fixed length.
- gradient: norm of the gradient of the decoder's output at the last position with respect to the
  embedding of the first source and of the first target token, of untrained models or of --runs.
  It is the root of the mean of |Jᵀv|² for random v, which estimates the Frobenius norm of J.

Both models are measured in turns in one process, and each figure is the fastest of --repeats.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import report  # noqa: E402

PRESETS = ("rnn", "tiny")
LENGTHS = (16, 32, 64, 128, 256, 512)
TOKENS = 4096  # of a batch, on each side
VOCABULARY = 10_000
DECODED = ((64, 4), (64, 1), (1, 4), (1, 1))  # sentences, beam
OUTPUT = 24  # tokens of a decoded translation
VECTORS = 32  # random v of the workload gradient
WORKLOADS = ("training", "decoding", "gradient")

Figures = dict[str, Any]


def configuration(name: str) -> Any:
    """Return the configuration of a preset with the vocabulary of this benchmark."""
    from keras_transformer.presets import preset

    config = preset(name)
    sizes = {"source_vocabulary_size": VOCABULARY, "target_vocabulary_size": VOCABULARY}
    return dataclasses.replace(config, model=dataclasses.replace(config.model, **sizes))


def random_ids(rows: int, length: int) -> Any:
    """Return (rows, length) int32 ids of real tokens."""
    import tensorflow as tf

    return tf.random.stateless_uniform([rows, length], [1, length], 4, VOCABULARY, tf.int32)


def fastest(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the seconds of the fastest call of each name, after a call that is not timed."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():  # in turns: the machine's load changes
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    return {name: min(each[1:]) for name, each in seconds.items()}


def training(arguments: argparse.Namespace) -> Iterator[Figures]:
    """Time a step of both models at each length."""
    import tensorflow as tf

    from keras_transformer.training.step import build_model

    steps: dict[str, Any] = {}
    for name in PRESETS:
        model = build_model(configuration(name), micro_batches=1)
        ids = tf.TensorSpec([None, None], tf.int32)
        steps[name] = tf.function(
            lambda ids, model=model: model.train_step(({"source": ids, "target": ids}, ids)),
            input_signature=[ids],
        )
    for length in arguments.lengths:
        ids = random_ids(TOKENS // length, length)
        calls = {
            name: lambda step=step, ids=ids: step(ids)["loss"].numpy()
            for name, step in steps.items()
        }
        for name, seconds in fastest(calls, arguments.repeats).items():
            yield {
                "model": name,
                "length": length,
                "milliseconds": 1000 * seconds,
                "tokens_per_second": TOKENS / seconds,  # target tokens, as training reports them
            }


def decoding(arguments: argparse.Namespace) -> Iterator[Figures]:
    """Time beam search of both models."""
    import tensorflow as tf

    from keras_transformer.config import SearchConfig
    from keras_transformer.inference.search.generate import generate
    from keras_transformer.model import transformer
    from keras_transformer.model.incremental.factory import incremental_decoder

    models = {name: transformer.build(configuration(name).model) for name in PRESETS}
    for sentences, beam in DECODED:
        search = SearchConfig(beam=beam, min_length=OUTPUT - 1)
        no_more = tf.zeros([sentences], tf.int32)  # translations are as long as their sources
        source = random_ids(sentences, OUTPUT)
        calls = {}
        for name, model in models.items():
            start = incremental_decoder(model, fixed=True).start
            translate = tf.function(
                lambda source, start=start, search=search, extra=no_more: (
                    generate(start, source, search, max_extra=extra).tokens
                ),
                input_signature=[tf.TensorSpec([None, None], tf.int32)],
                autograph=False,
            )
            calls[name] = lambda translate=translate, source=source: translate(source).numpy()
        for name, seconds in fastest(calls, arguments.repeats).items():
            yield {
                "model": name,
                "sentences": sentences,
                "beam": beam,
                "milliseconds": 1000 * seconds,
                "tokens_per_second": sentences * OUTPUT / seconds,
            }


def gradient(arguments: argparse.Namespace) -> Iterator[Figures]:
    """Measure the gradient that reaches the first tokens from the last output."""
    from keras_transformer.model import transformer
    from keras_transformer.run import Run

    runs = arguments.runs or [None] * len(PRESETS)
    for name, run in zip(PRESETS, runs, strict=True):
        model = Run.open(run).model() if run else transformer.build(configuration(name).model)
        for length in arguments.lengths:
            norms = gradient_norms(model, length)
            yield {"model": name, "trained": bool(run), "length": length} | norms


def gradient_norms(model: Any, length: int) -> dict[str, float]:
    """Return the norms for sentences of ``length`` random tokens on both sides."""
    import numpy as np
    import tensorflow as tf

    from keras_transformer.model import transformer
    from keras_transformer.model.masks import padding_mask

    layer = model.get_layer
    batch = max(1, min(8, TOKENS // length))
    size = transformer.source_embedding(model).vocabulary_size
    shape = [batch, length]
    ids = tf.random.stateless_uniform(shape, [2, length], 4, size, tf.int32)

    @tf.function
    def pull_back(vectors: tf.Tensor) -> Any:
        source = layer("source_positions")(transformer.source_embedding(model)(ids))
        target = layer("target_positions")(transformer.target_embedding(model)(ids))
        mask = padding_mask(ids)
        with tf.GradientTape() as tape:
            tape.watch([source, target])
            memory = layer("encoder")(source, mask)
            last = layer("decoder")(target, memory, mask, mask)[:, -1]  # (B, D)
            product = tf.reduce_sum(last * vectors)
        return [x[:, 0] for x in tape.gradient(product, [source, target])]  # (B, D) each

    squares = np.zeros(2)
    width = transformer.source_embedding(model).d_model
    for number in range(max(1, VECTORS // batch)):
        vectors = tf.random.stateless_normal([batch, width], [3, number])
        gradients = [x.numpy().astype("float64") for x in pull_back(vectors)]  # squares are small
        squares += [(x**2).sum(axis=1).mean() for x in gradients]
    # Per output feature, so that models of different width compare.
    source, target = np.sqrt(squares / max(1, VECTORS // batch) / width)
    return {"source": float(source), "target": float(target)}


def tables(results: dict[str, list[Figures]]) -> str:
    """Return the figures as Markdown."""
    parts = []
    if rows := results.get("training"):
        body = []
        for length in dict.fromkeys(row["length"] for row in rows):
            own = {row["model"]: row for row in rows if row["length"] == length}
            cells = [f"{own[name]['milliseconds']:,.0f}" for name in PRESETS]
            ratio = own["rnn"]["milliseconds"] / own["tiny"]["milliseconds"]
            speed = [f"{own[name]['tokens_per_second']:,.0f}" for name in PRESETS]
            body.append([f"{TOKENS // length} x {length}", *cells, f"{ratio:.2f}", *speed])
        head = ["sentences x tokens", "`rnn` ms", "`tiny` ms", "ratio"]
        head += ["`rnn` tokens/s", "`tiny` tokens/s"]
        parts.append(report.markdown(head, body))
    if rows := results.get("decoding"):
        body = []
        for case in dict.fromkeys((row["sentences"], row["beam"]) for row in rows):
            own = {
                row["model"]: f"{row['tokens_per_second']:,.0f}"
                for row in rows
                if (row["sentences"], row["beam"]) == case
            }
            body.append([*map(str, case), *(own[name] for name in PRESETS)])
        head = ["sentences", "beam", "`rnn` tokens/s", "`tiny` tokens/s"]
        parts.append(report.markdown(head, body))
    if rows := results.get("gradient"):
        body = []
        for length in dict.fromkeys(row["length"] for row in rows):
            own = {row["model"]: row for row in rows if row["length"] == length}
            cells = [f"{own[name][side]:.1e}" for side in ("source", "target") for name in PRESETS]
            body.append([str(length), *cells])
        head = ["tokens", "first source token, `rnn`", "`tiny`", "first target token, `rnn`"]
        parts.append(report.markdown([*head, "`tiny`"], body))
    return "\n\n".join(parts)


def plot(results: dict[str, list[Figures]], file: Path) -> None:
    """Draw time of a step and gradient by length."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    colors = dict(zip(PRESETS, ("tab:orange", "tab:blue"), strict=True))
    labels = {"rnn": "recurrent (rnn)", "tiny": "Transformer (tiny)"}
    for name in PRESETS:
        own = [row for row in results["training"] if row["model"] == name]
        points = [row["length"] for row in own], [row["milliseconds"] for row in own]
        left.plot(*points, "o-", color=colors[name], label=labels[name])
        own = [row for row in results["gradient"] if row["model"] == name]
        for side, style in (("source", "o-"), ("target", "s--")):
            seen = [row for row in own if row[side]]  # 0 where float32 has nothing smaller
            points = [row["length"] for row in seen], [row[side] for row in seen]
            label = f"{labels[name]}, first {side} token"
            right.plot(*points, style, color=colors[name], label=label)
    left.set(title=f"A training step, {TOKENS:,} tokens a side", ylabel="milliseconds")
    right.set(title="Gradient of the last output", ylabel="norm")
    left.set_ylim(bottom=0)
    right.set_yscale("log")
    lengths = sorted(
        {row["length"] for rows in results.values() for row in rows if "length" in row}
    )
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(length) for length in lengths])
        axes.set_xlabel("tokens of a sentence")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, nargs="+", default=WORKLOADS)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=LENGTHS, metavar="LENGTH",
        help=f"tokens of a sentence (default: {' '.join(map(str, LENGTHS))})",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=5, help="calls timed (default: 5)")
    parser.add_argument(
        "--runs", type=Path, nargs=2, metavar=("RNN", "TINY"),
        help="run folders whose gradient is measured (default: untrained models)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--plot", type=Path, help="picture of training and gradient")
    return parser.parse_args()


def main() -> None:
    """Measure, print and, if asked, write a report."""
    arguments = parse()
    machine = report.machine()
    results = {}
    for workload in arguments.workload:
        measure = {"training": training, "decoding": decoding, "gradient": gradient}[workload]
        results[workload] = []
        for row in measure(arguments):
            print(json.dumps(row), file=sys.stderr, flush=True)
            results[workload].append(row)
        if arguments.json:
            text = json.dumps({"machine": machine, "results": results}, indent=1)
            arguments.json.write_text(text + "\n", encoding="utf-8")
    print(tables(results))
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
