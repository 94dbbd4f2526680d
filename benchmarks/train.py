"""Training speed beside OpenNMT-tf on the same machine.

  python benchmarks/train.py --model tiny
  python benchmarks/train.py --model base --steps 3 --rounds 3
  python benchmarks/train.py --draw train.png tiny.json base.json

All contestants train the same network on Multi30k English-German with the same subword
vocabulary, each with its own loop and batches, in its own process with all processors. After a
warm-up they take some steps in turn, in alternating order, while the others sleep. The table shows
medians over the rounds and their spread. Tokens are those of source and target, end tokens
included, padding excluded. The first call creates the peer's environment.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from contestants import environments
from contestants.process import ROOT, Case, Contestant, Running, command, environment
from options import add_shared_options
from report import machine, markdown

sys.path.insert(0, str(ROOT))

from keras_transformer.config import Config, DataConfig, to_dict
from keras_transformer.data.prepare import prepare
from keras_transformer.data.prepared import Prepared
from keras_transformer.presets import preset

CONTESTANTS = {
    "ours": Contestant("ours, float32", "train_ours.py", "", "float32"),
    "ours-bfloat16": Contestant("ours, bfloat16", "train_ours.py", "", "bfloat16"),
    "opennmt-tf": Contestant("OpenNMT-tf, float32", "train_opennmt_tf.py", "opennmt-tf", "float32"),
}
START, END = 2, 3  # ids in this package

Figures = dict[str, Any]


def configuration(model: str, batch_tokens: int, data: DataConfig, prepared: Prepared) -> Config:
    """Return a preset with the vocabulary sizes of a corpus.

    Args:
        model: The preset.
        batch_tokens: Of a batch.
        data: The corpus.
        prepared: The same, prepared.
    """
    chosen, tokenizer = preset(model), prepared.tokenizer
    return dataclasses.replace(
        chosen,
        data=data,
        model=dataclasses.replace(
            chosen.model,
            source_vocabulary_size=tokenizer.source.size,
            target_vocabulary_size=tokenizer.target.size,
        ),
        train=dataclasses.replace(chosen.train, batch_tokens=batch_tokens),
    )


def write_words(prepared: Prepared, folder: Path) -> None:
    """Write the pairs in the format of OpenNMT-tf: ``source``, ``target`` and ``vocabulary``.

    A word is the number of a piece. The vocabulary has as many entries as ours: OpenNMT-tf
    adds the one for unknown words itself.

    Args:
        prepared: The pairs.
        folder: Where to write; it is made.
    """
    folder.mkdir()
    store, chunk = prepared.train, 1_000
    with (
        (folder / "source").open("w", encoding="utf-8") as source,
        (folder / "target").open("w", encoding="utf-8") as target,
    ):
        for first in range(0, len(store), chunk):
            batch = store.batch(range(first, min(first + chunk, len(store))))
            for file, rows in ((source, batch["source"]), (target, batch["labels"])):
                for row in rows.tolist():
                    print(*row[: row.index(END)], file=file)
    ordinary = range(END + 1, prepared.tokenizer.source.size)
    entries = ["<blank>", "<s>", "</s>", *map(str, ordinary)]
    (folder / "vocabulary").write_text("\n".join(entries) + "\n", encoding="utf-8")


def measure(arguments: argparse.Namespace, folder: Path) -> list[Figures]:
    """Train all contestants in turn, forwards in one round and backwards in the next."""
    data = corpus(arguments.data)
    prepared = prepare(data, folder, lambda line: print(line, file=sys.stderr, flush=True))
    write_words(prepared, folder / "words")
    config = configuration(arguments.model, arguments.batch_tokens, data, prepared)
    running = []
    for name in arguments.contestants:
        one = CONTESTANTS[name]
        python = sys.executable
        if one.environment:
            python = environments.python(arguments.venvs, one.environment)
        running.append(Running(one, python, settings(one, config, folder)))
    for one in running:
        one.ask({"steps": arguments.warm})
    rounds: list[list[Figures]] = [[] for _ in running]
    memory = [0.0 for _ in running]
    places = list(range(len(running)))
    for turn in range(arguments.rounds):
        for place in places if turn % 2 == 0 else reversed(places):
            case = Case()
            running[place].ask({"steps": arguments.steps}, case)
            outputs: Any = case.outputs
            rounds[place].append(outputs | {"seconds": case.seconds[0], "worked": case.worked[0]})
            memory[place] = case.memory
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for one in running:
        one.end()
    return [
        figures(one.contestant.name, own, arguments.steps)
        | {"memory": most, "versions": one.versions}
        for one, own, most in zip(running, rounds, memory, strict=True)
    ]


def figures(name: str, rounds: list[Figures], steps: int) -> Figures:
    """Return the figures of a contestant.

    Args:
        name: Its name.
        rounds: Of each round ``tokens``, ``positions``, ``seconds`` and processor seconds
            ``worked``.
        steps: Of each round.
    """
    speeds = [one["tokens"] / one["seconds"] for one in rounds]
    tokens = sum(one["tokens"] for one in rounds)
    return {
        "contestant": name,
        "tokens_per_second": median(speeds),
        "spread": (max(speeds) - min(speeds)) / median(speeds),
        "milliseconds_per_step": 1000 * median(one["seconds"] for one in rounds) / steps,
        "tokens_per_step": tokens / (steps * len(rounds)),
        "padding": 1 - tokens / sum(one["positions"] for one in rounds),
        "processor_seconds_per_million_tokens": 1e6
        * median(one["worked"] / one["tokens"] for one in rounds),
        "rounds": rounds,
    }


def waiting(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Return the share of time that our steps wait for data, by precision."""
    data = corpus(arguments.data)
    prepared = prepare(data, folder, lambda line: None)
    config = configuration(arguments.model, arguments.batch_tokens, data, prepared)
    found = {}
    for name in ("ours", "ours-bfloat16"):
        one = CONTESTANTS[name]
        task = settings(one, config, folder) | {"task": "waiting", "steps": arguments.steps}
        done = subprocess.run(
            command(one, sys.executable, task),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=environment(sys.executable),
        )
        found[one.name] = float(json.loads(done.stdout))
    return found


def corpus(folder: Path) -> DataConfig:
    """Return Multi30k English-German with a joint vocabulary of 10,000 entries."""
    place = folder / "multi30k"
    return DataConfig(str(place / "train"), str(place / "val"), source="en", target="de")


def settings(one: Contestant, config: Config, folder: Path) -> dict[str, Any]:
    """Return the settings of a contestant's script."""
    train = dataclasses.replace(config.train, precision=one.dtype)
    return {
        "task": "train",
        "folder": str(folder),
        "run": str(folder),
        "text": str(folder / "words"),
        "config": to_dict(dataclasses.replace(config, train=train)),
    }


def table(rows: list[Figures]) -> str:
    """Return the figures as Markdown; the last column is the speed relative to the peer's."""
    peer = next((row for row in rows if row["contestant"].startswith("OpenNMT")), None)
    columns = {
        "": lambda row: row["contestant"],
        "tokens/s": lambda row: f"{row['tokens_per_second']:,.0f}",
        "spread": lambda row: f"{row['spread']:.0%}",
        "ms a step": lambda row: f"{row['milliseconds_per_step']:,.0f}",
        "tokens a step": lambda row: f"{row['tokens_per_step']:,.0f}",
        "padding": lambda row: f"{row['padding']:.1%}",
        "processor s a million tokens": lambda row: (
            f"{row['processor_seconds_per_million_tokens']:.0f}"
        ),
        "MiB at most": lambda row: f"{row['memory']:,.0f}",
    }
    if peer:
        speed = peer["tokens_per_second"]
        columns["times OpenNMT-tf"] = lambda row: f"{row['tokens_per_second'] / speed:.2f}"
    return markdown(list(columns), [[write(row) for write in columns.values()] for row in rows])


def draw(venvs: Path, picture: Path, reports: list[Path]) -> None:
    """Draw reports as bars."""
    found = [json.loads(report.read_text(encoding="utf-8")) for report in reports]
    script = str(ROOT / "benchmarks" / "plot_training.py")
    subprocess.run(
        [environments.python(venvs, "plot"), script, str(picture)],
        input=json.dumps(found),
        text=True,
        check=True,
    )


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=("tiny", "base"), default="tiny", help="(default: tiny)")
    parser.add_argument(
        "--batch_tokens", type=int, default=4_096,
        help="most tokens of a side in a batch; OpenNMT-tf counts padding, ours does not "
        "(default: 4096)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--steps", type=int, default=15, help="of a round (default: 15)")
    parser.add_argument("--warm", type=int, default=5, help="steps before (default: 5)")
    parser.add_argument(
        "--waiting", action="store_true", help="instead: how long our --steps wait for data"
    )
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw reports of --json")
    parser.add_argument("reports", type=Path, nargs="*", help="for --draw")
    add_shared_options(parser, CONTESTANTS)
    arguments = parser.parse_args()
    if bool(arguments.draw) != bool(arguments.reports):
        parser.error("--draw and reports: expected both or none of them")
    return arguments


def main() -> None:
    """Measure, print and, if asked, write a report."""
    arguments = parse()
    if arguments.draw:
        draw(arguments.venvs, arguments.draw, arguments.reports)
        return
    place = machine()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.waiting:
            for name, share in waiting(arguments, Path(folder)).items():
                print(f"{name}: {share:.2%} of the time of {arguments.model} waits for data")
            return
        rows = measure(arguments, Path(folder))
    print("{processor}, {processors} processors, load {load_before:.1f}".format(**place))
    print(f"\n{arguments.model}, {arguments.batch_tokens:,} tokens a batch:\n\n{table(rows)}")
    if arguments.json:
        report = {"machine": place, "model": arguments.model, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
