"""Size and speed of converted models, and the walks of docs/conversion.md, timed.

  python benchmarks/converted.py walks --json docs/converted.json
  python benchmarks/converted.py speed --json docs/converted.json
  python benchmarks/converted.py walks --size small

- walks: follow each command of the walks with local models.
- speed: translations of one length by the converted run, beside CTranslate2 and Hugging Face with
  the same model: one sentence at a time, and batches of 32.

The models have the files and shapes of public ones, OPUS-MT and OpenNMT-tf's base model: their
vocabularies are learned from Multi30k, their weights are random. The first call creates them and
the peers' environments. ``python -m tools.conversion_table`` writes the figures of
docs/converted.json to docs/conversion.md. How it measures: benchmarks/README.md, protocol.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "foreign"), str(HERE.parent)]

import corpus  # noqa: E402
import proof  # noqa: E402
import real_shapes  # noqa: E402
import walks  # noqa: E402
from contestants import environments  # noqa: E402
from contestants.field import measure  # noqa: E402
from contestants.process import Contestant, Running  # noqa: E402
from options import add_shared_options  # noqa: E402
from report import machine  # noqa: E402

from tools import conversion_table  # noqa: E402

Figures = dict[str, Any]

BEAM, LENGTH = 4, 25
"""Tokens of each translation, its end counted."""
BATCHES = {1: 8, 32: 4}
"""Sentences in a batch: batches."""
SCRIPT = "translators.py"


@dataclasses.dataclass(frozen=True)
class System:
    """A system that translates with a model on disk.

    Args:
        contestant: Its process.
        system: Of ``translators.SYSTEMS``.
        options: Of the export that makes its folder; none: the model itself.
    """

    contestant: Contestant
    system: str
    options: tuple[str, ...] = ()


def _system(name: str, environment: str, dtype: str, system: str, *options: str) -> System:
    return System(Contestant(name, SCRIPT, environment, dtype), system, options)


_EXACTLY = ("--search.min_length", str(LENGTH - 1), "--search.max_length", str(LENGTH))
_TO_CTRANSLATE2 = ("--format", "ctranslate2")
SYSTEMS = {
    "ours": _system("ours, float32", "", "float32", "saved_model", *_EXACTLY),
    "ours-bfloat16": _system(
        "ours, bfloat16", "", "bfloat16", "saved_model", *_EXACTLY, "--dtype", "bfloat16"
    ),
    "ctranslate2": _system(
        "CTranslate2, float32", "ctranslate2", "float32", "ctranslate2", *_TO_CTRANSLATE2
    ),
    "ctranslate2-int8": _system(
        *("CTranslate2, int8", "ctranslate2", "int8", "ctranslate2", *_TO_CTRANSLATE2),
        *("--dtype", "int8"),
    ),
    "hugging-face": _system(
        "Hugging Face, float32", "hugging-face", "float32", "hugging_face"
    ),
}  # fmt: skip

MODELS = ("opus-mt-en-de", "opus-2020-02-26", "opennmt-en-de")
"""Names in the walks: Hugging Face's form, the release, OpenNMT-tf's."""


def make_models(arguments: argparse.Namespace, place: Path) -> None:
    """Make the models that are not in the folder."""
    shape = real_shapes.SHAPES[arguments.size]
    pairs = corpus.multi30k(arguments.data, "train", 29_000)
    text = list(zip(*pairs, strict=True))
    first, release, opennmt = (place / name for name in MODELS)
    place.mkdir(parents=True, exist_ok=True)
    if not release.is_dir():
        shutil.rmtree(first, ignore_errors=True)
        real_shapes.write_opus(first, release, shape, text)
    if not (opennmt / "checkpoint").is_file():
        shutil.rmtree(opennmt, ignore_errors=True)
        real_shapes.write_joint(opennmt, shape, text)
        settings = {"folder": str(opennmt), "model": shape.opennmt_model}
        python = environments.python(arguments.venvs.resolve(), "opennmt-tf")
        done = subprocess.run(
            [python, str(HERE / "foreign" / "opennmt_base.py"), json.dumps(settings)],
            capture_output=True, text=True, env=proof.environment(),
        )  # fmt: skip
        proof.check(done, "OpenNMT-tf's model")


def mebibytes(folder: Path) -> float:
    """Return the size of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


def prepare(arguments: argparse.Namespace, models: Path, work: Path) -> dict[str, Path]:
    """Convert and export what is not in the folder; return the folder of each system."""
    model, run = models / MODELS[0], work / "run"
    if not run.is_dir():
        done = proof.command("keras_transformer.convert", str(model), "--run", str(run))
        proof.check(done, "conversion")
    places = {"run": run}
    for name in arguments.contestants:
        options, place = SYSTEMS[name].options, work / name
        if options and not (place / "1").is_dir():
            done = proof.command(
                "keras_transformer.export", "--run", str(run), "--to", str(place),
                "--search.beam", str(BEAM), *options,
            )  # fmt: skip
            proof.check(done, f"export of {name}")
        places[name] = place / "1" if options else model
    return places


def speed(arguments: argparse.Namespace, models: Path) -> Figures:
    """Measure size and speed."""
    work = models.parent / f"{models.name}.exports"
    work.mkdir(parents=True, exist_ok=True)
    places = prepare(arguments, models, work)
    lines = [pair[0] for pair in corpus.multi30k(arguments.data, "test_2016_flickr", 500)]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        running = []
        for name in arguments.contestants:
            contestant = SYSTEMS[name].contestant
            python = sys.executable
            if contestant.environment:
                venvs = arguments.venvs.resolve()
                python = environments.python(venvs, contestant.environment)
            settings = {
                "system": SYSTEMS[name].system, "model": str(places[name].resolve()),
                "folder": folder, "beam": BEAM, "length": LENGTH,
            }  # fmt: skip
            running.append(Running(contestant, python, settings))
            stack.callback(running[-1].end)
        rows: list[Figures] = [
            {
                "system": one.contestant.name,
                "versions": one.versions,
                "folder_mib": mebibytes(places[name]),
            }
            for name, one in zip(arguments.contestants, running, strict=True)
        ]
        for size, count in BATCHES.items():
            request = {"batches": [lines[size * n : size * (n + 1)] for n in range(count)]}
            for one in running:
                one.ask(request)  # the first of a shape takes longer
            requests = {one.contestant: request for one in running}
            cases = measure(running, requests, arguments.repeats)
            for row, case in zip(rows, cases, strict=True):
                seconds = median(case.seconds)
                row[f"batch_{size}"] = {
                    "milliseconds_per_sentence": 1000 * seconds / (size * count),
                    "tokens_per_second": size * count * LENGTH / seconds,
                    "spread": (max(case.seconds) - min(case.seconds)) / seconds,
                    "memory_peak": case.memory,
                    "seconds": case.seconds,
                }
    return {
        "model_mib": mebibytes(models / MODELS[0]),
        "run_mib": mebibytes(places["run"]),
        "beam": BEAM,
        "length": LENGTH,
        "systems": rows,
    }


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="+", choices=("walks", "speed", "models"))
    parser.add_argument(
        "--size", choices=real_shapes.SHAPES, default="base", help="of the models (default: base)"
    )
    parser.add_argument("--models", type=Path, help="keep, or use again, the models in this folder")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of speed (default: 5)")
    add_shared_options(parser, SYSTEMS)
    return parser.parse_args()


def main() -> None:
    """Make the models, follow or measure, and print tables."""
    arguments = parse()
    figures: Figures = {}
    if arguments.json and arguments.json.is_file():
        figures = json.loads(arguments.json.read_text(encoding="utf-8"))
    with contextlib.ExitStack() as stack:
        place = arguments.models or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = place.resolve() / arguments.size
        make_models(arguments, models)
        for task in arguments.tasks:
            if task == "models":
                prepare(arguments, models, models.parent / f"{models.name}.exports")
                continue
            figures[f"{task}_machine"] = machine()
            if task == "walks":
                figures[task] = walks.follow(models, arguments.data)
                print(conversion_table.walks(figures))
            else:
                figures[task] = speed(arguments, models)
                print(conversion_table.speed(figures))
            if arguments.json:
                text = json.dumps(figures, indent=1, ensure_ascii=False)
                arguments.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
