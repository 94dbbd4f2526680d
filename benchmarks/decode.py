"""Decoding speed beside OpenNMT-tf and CTranslate2 on the same machine.

  python benchmarks/decode.py --workload fixed
  python benchmarks/decode.py --workload trained --run runs/m30k
  python benchmarks/decode.py --workload length --plot decode.png

- fixed: the base model with a vocabulary of 32,000 and random weights writes exactly --length
  tokens, in batches of 32 and one sentence at a time. Sources are random, as long as real
  sentences. With --workers 2 two batches run in parallel, and single sentences are left out.
- trained: a run translates real text, each contestant with its best batch size.
- length: the cost of a token as the translation grows, with and without the cache.

All contestants have the same weights, each in its own process with all processors. After a warm-up
they are measured in turn, in alternating order. The table shows medians over the rounds and their
spread. The first call creates the peers' environments.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from contestants import environments
from contestants.field import Field
from contestants.process import CONTESTANTS, ROOT, Case, Running, prepare
from options import add_shared_options
from report import machine, markdown

sys.path.insert(0, str(ROOT))

from keras_transformer.config import ModelConfig
from keras_transformer.run import Run

BATCHES = {32: 4, 1: 8}  # sentences in a batch: batches
BATCH_TOKENS = (256, 512, 1024, 2048, 4096)
PLACES = (10, 50, 100, 200)  # tokens at which the cost is printed
HALF = 5  # tokens before and after them that count
END = 3

Figures = dict[str, Any]


def texts(data: Path, language: str) -> list[str]:
    """Return the lines of the test set in a language."""
    file = data / "multi30k" / f"test_2016_flickr.{language}"
    if not file.is_file():
        raise SystemExit(f"{file}: not found; name the folder of multi30k by --data")
    return file.read_text(encoding="utf-8").splitlines()


def random_sources(lines: list[str], vocabulary: int) -> list[list[int]]:
    """Return random ids for each line, one per word or punctuation mark, and END."""
    dice = random.Random(1)
    lengths = [len(re.findall(r"\w+|[^\w\s]", line)) for line in lines]
    return [[*(dice.randrange(END + 1, vocabulary) for _ in range(n)), END] for n in lengths]


def figures(one: Running, case: Case, sentences: int, tokens: int) -> Figures:
    """Return the figures of a contestant in a case."""
    seconds = median(case.seconds)
    return {
        "contestant": one.contestant.name,
        "versions": one.versions,
        "tokens_per_second": tokens / seconds,
        "sentences_per_second": sentences / seconds,
        "milliseconds_per_sentence": 1000 * seconds / sentences,
        "spread": (max(case.seconds) - min(case.seconds)) / seconds,
        "processor_milliseconds_per_sentence": 1000 * median(case.worked) / sentences,
        "memory_start": one.memory,
        "memory_peak": case.memory,
        "seconds": case.seconds,
        "processor_seconds": case.worked,
    }


def fixed(arguments: argparse.Namespace, folder: Path) -> dict[str, list[Figures]]:
    """Measure translations of one length by the base model."""
    vocabulary = 32_000
    model = ModelConfig(source_vocabulary_size=vocabulary, target_vocabulary_size=vocabulary)
    field = Field(arguments, settings_for(arguments, folder, model, task="exact", run=None))
    sources = random_sources(texts(arguments.data, "en"), vocabulary)
    results = {}
    sizes = [size for size in sorted(BATCHES) if size >= arguments.workers]
    for size in sizes:  # the small one first, so that each has its own memory
        several = [sources[size * n : size * (n + 1)] for n in range(BATCHES[size])]
        requests = {one.contestant: {"batches": several} for one in field.running}
        for one in field.running:
            one.ask(requests[one.contestant])  # the first of a shape takes longer
        rows = []
        sentences = sum(map(len, several))
        for one, case in zip(
            field.running, field.measure(requests, arguments.repeats), strict=True
        ):
            if any(len(ids) != arguments.length for ids in case.outputs):
                raise SystemExit(f"{one.contestant.name}: not {arguments.length} tokens each")
            rows.append(figures(one, case, sentences, sentences * arguments.length))
        results[f"{size} at a time"] = rows
    field.end()
    return results


def trained(arguments: argparse.Namespace, folder: Path) -> dict[str, list[Figures]]:
    """Measure translations of real text by a trained run."""
    from sacrebleu import corpus_bleu

    run = Run.open(arguments.run)
    if not run.config.data.joint:
        raise SystemExit(f"{arguments.run}: expected a run with one vocabulary, data.joint true")
    field = Field(
        arguments,
        settings_for(
            arguments,
            folder,
            run.config.model,
            task="text",
            run=str(arguments.run.resolve()),
            pieces=str(arguments.run.resolve() / "tokenizer" / "joint.model"),
            length=None,
        ),
    )
    lines, references = (
        texts(arguments.data, language)[: arguments.sentences]
        for language in (run.config.data.source, run.config.data.target)
    )
    requests, tokenizer = {}, run.tokenizer().target
    for one in field.running:
        tried = {}
        for tokens in arguments.batch_tokens:
            request = {"lines": lines, "batch_tokens": tokens}
            one.ask(request)  # the first of a shape takes longer
            tried[tokens] = one.ask(request)
        best = min(tried, key=lambda tokens: tried[tokens])
        requests[one.contestant] = {"lines": lines, "batch_tokens": best}
    cases = field.measure(requests, arguments.repeats)
    rows = []
    for one, case in zip(field.running, cases, strict=True):
        tokens = sum(len(ids) + 1 for ids in tokenizer.encode(case.outputs))  # and END
        equal = sum(map(str.__eq__, case.outputs, cases[0].outputs)) / len(lines)
        rows.append(
            figures(one, case, len(lines), tokens)
            | {
                "bleu": corpus_bleu(case.outputs, [references]).score,
                "equal_lines": equal,
                "batch_tokens": requests[one.contestant]["batch_tokens"],
            }
        )
    field.end()
    return {f"{len(lines)} sentences": rows}


def length(arguments: argparse.Namespace, folder: Path) -> dict[str, list[Figures]]:
    """Measure milliseconds per token, with and without the cache."""
    model = ModelConfig(source_vocabulary_size=32_000, target_vocabulary_size=32_000)
    settings = settings_for(
        arguments, folder, model, task="positions", run=None, length=PLACES[-1] + HALF + 2
    )
    ours = CONTESTANTS["ours"]
    prepare(ours, sys.executable, settings)
    sources = random_sources(texts(arguments.data, "en"), model.source_vocabulary_size)
    sources = sources[: arguments.sentences or 8]
    rows = []
    for cache in (True, False):
        one = Running(ours, sys.executable, settings | {"cache": cache})
        one.ask({"batches": [sources]})  # the first of a shape takes longer
        rounds = []
        for _ in range(arguments.repeats if cache else 1):
            case = Case()
            one.ask({"batches": [sources]}, case)
            rounds.append([1000 * (b - a) for a, b in itertools.pairwise(case.outputs[0])])
        one.end()
        each = [median(values) for values in zip(*rounds, strict=True)]  # from token 1 on
        rows.append(
            {
                "cache": cache,
                "milliseconds": each,
                "at": {place: mean(each[place - HALF - 1 : place + HALF]) for place in PLACES},
            }
        )
    return {f"{len(sources)} sentences at a time": rows}


def settings_for(
    arguments: argparse.Namespace, folder: Path, model: ModelConfig, **more: Any
) -> dict[str, Any]:
    """Return the settings of a contestant's script."""
    return {
        "folder": str(folder),
        "model": dataclasses.asdict(model),
        "beam": arguments.beam,
        "alpha": arguments.alpha,
        "length": arguments.length,
        "longest": 250,  # tokens, where a sentence may end when it ends
        "workers": arguments.workers,
    } | more


def table(rows: list[Figures]) -> str:
    """Return the figures of a case as Markdown."""
    if "cache" in rows[0]:
        return length_table(rows)
    own = [row for row in rows if row["contestant"].startswith("ours")]
    columns = {
        "": lambda row: row["contestant"],
        "tokens/s": lambda row: f"{row['tokens_per_second']:,.0f}",
        "sentences/s": lambda row: f"{row['sentences_per_second']:.1f}",
        "ms a sentence": lambda row: f"{row['milliseconds_per_sentence']:.1f}",
        "spread": lambda row: f"{row['spread']:.0%}",
        "processor ms a sentence": lambda row: f"{row['processor_milliseconds_per_sentence']:.1f}",
        "MiB at start": lambda row: f"{row['memory_start']:,.0f}",
        "MiB at most": lambda row: f"{row['memory_peak']:,.0f}",
    }
    if "bleu" in rows[0]:
        columns |= {
            "BLEU": lambda row: f"{row['bleu']:.2f}",
            "lines as in the first row": lambda row: f"{row['equal_lines']:.1%}",
            "tokens in a batch": lambda row: str(row["batch_tokens"]),
        }
    for one in own:
        rate = one["sentences_per_second"]
        columns[f"{one['contestant']}, against it"] = lambda row, rate=rate: (
            f"{rate / row['sentences_per_second']:.2f}"
        )
    return markdown(list(columns), [[write(row) for write in columns.values()] for row in rows])


def length_table(rows: list[Figures]) -> str:
    """Return milliseconds per token at some positions, as Markdown."""
    head = ["", *(f"ms at token {place}" for place in PLACES), "last to first"]
    body = []
    for row in rows:
        times = list(row["at"].values())
        name = "with the cache" if row["cache"] else "without"
        body.append([name, *(f"{time:.1f}" for time in times), f"{times[-1] / times[0]:.2f}"])
    return markdown(head, body)


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--run", type=Path, help="a trained run, for trained")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--beam", type=int, default=4, help="(default: 4)")
    parser.add_argument("--alpha", type=float, default=0.6, help="length penalty (default: 0.6)")
    parser.add_argument("--length", type=int, default=32, help="tokens, for fixed (default: 32)")
    parser.add_argument(
        "--sentences", type=int, help="of the test set (default: all, for length 8)"
    )
    parser.add_argument(
        "--batch_tokens", type=int, nargs="+", default=BATCH_TOKENS,
        help="tokens in a batch, for trained; with several, each contestant's best counts "
        f"(default: {' '.join(map(str, BATCH_TOKENS))})",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int,
        help="batches side by side, with the processors shared out among them (default: as many "
        "as processors for trained, else 1)",
    )  # fmt: skip
    parser.add_argument("--plot", type=Path, help="picture for length")
    add_shared_options(parser, CONTESTANTS)
    arguments = parser.parse_args()
    if arguments.workload == "trained" and arguments.run is None:
        parser.error("name a trained run by --run")
    if arguments.workers is None:
        cores = len(os.sched_getaffinity(0))
        arguments.workers = cores if arguments.workload == "trained" else 1
    return arguments


WORKLOADS = {"fixed": fixed, "trained": trained, "length": length}


def main() -> None:
    """Measure, print and, if asked, write a report."""
    arguments = parse()
    place = machine()
    with tempfile.TemporaryDirectory() as folder:
        results = WORKLOADS[arguments.workload](arguments, Path(folder))
    report = {"machine": place, "workload": arguments.workload, "results": results}
    print("{processor}, {processors} processors, load {load_before:.1f}".format(**place))
    for case, rows in results.items():
        print(f"\n{arguments.workload}, {case}:\n\n{table(rows)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if arguments.plot:
        drawing = [
            environments.python(arguments.venvs, "plot"),
            str(ROOT / "benchmarks" / "plot.py"),
        ]
        subprocess.run(
            [*drawing, str(arguments.plot)], input=json.dumps(report), text=True, check=True
        )


if __name__ == "__main__":
    main()
