"""Proof that exports for Hugging Face's MarianMT compute there what the run computes.

  python benchmarks/marian_hf.py --json docs/marian_hf.json
  python benchmarks/marian_hf.py --models /tmp/models

The runs: models of Hugging Face and Marian, as ``benchmarks/conversion.py`` makes them, converted;
the first of them after 50 updates of fine-tuning; and one of the paper's configuration, trained
here. Each is exported with ``--format marian-hf``, loaded by transformers in its own environment,
and compared: token ids, all logits of given pairs, log-probabilities of its n-best lists, greedy
translations.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "foreign"), str(HERE.parent)]

import corpus  # noqa: E402
import peers  # noqa: E402
import proof  # noqa: E402
from contestants import environments  # noqa: E402
from contestants.process import ROOT  # noqa: E402

MODELS = {
    ("hf_marian", "shared"): (),
    ("hf_marian", "separate"): (),
    ("hf_marian", "float16"): ("--stored_positions", "true"),
    ("marian", "shared"): (),
    ("marian", "separate"): (),
}
"""Format and variant of each model, with the options of its conversion."""

TUNED = {"train.max_steps": 50, "train.warmup_steps": 10, "train.learning_rate_factor": 0.03}
TRAINED = {
    "train.max_steps": 200,
    "train.warmup_steps": 50,
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "model.d_model": 64,
    "model.heads": 4,
    "model.d_ff": 128,
    "data.vocabulary_size": 1000,
}
COMMON = {
    "data.source": "source",
    "data.target": "target",
    "data.max_tokens": 100,
    "train.batch_tokens": 1500,
    "train.checkpoint_every": 50,
    "train.dev_sentences": 0,
    "train.best_by": "loss",
    "train.average": 1,
}


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, help="keep, or use again, the models in this folder")
    parser.add_argument(
        "--data", type=Path,
        default=Path(os.environ.get("KERAS_TRANSFORMER_DATA", ROOT.parent / "shared" / "data")),
        help="folder with multi30k/ (default: $KERAS_TRANSFORMER_DATA)",
    )  # fmt: skip
    parser.add_argument(
        "--venvs", type=Path, default=ROOT / ".venv" / "peers",
        help="folder of the peers' environments (default: .venv/peers)",
    )  # fmt: skip
    parser.add_argument("--sentences", type=int, default=500, help="to translate (default: 500)")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args()


class Proof:
    """The comparison of runs with their exports.

    Args:
        python: Interpreter with transformers.
        work: Folder for runs and exports.
        text: Folder of test and training text.
    """

    def __init__(self, python: str, work: Path, text: Path) -> None:
        self.python = python
        self.work = work
        self.text = text

    def convert(self, place: Path, name: str, variant: str) -> Path:
        """Return the run of a converted model."""
        run = self.work / f"{name} {variant}"
        source = str(peers.model_folder(place, name, variant))
        done = proof.command(
            "keras_transformer.convert", source, "--run", str(run), *MODELS[name, variant]
        )
        proof.check(done, run.name)
        return run

    def train(self, name: str, fields: dict[str, Any], *options: str) -> Path:
        """Return a trained run."""
        run = self.work / name
        fields = COMMON | fields
        words = [word for key, value in fields.items() for word in (f"--{key}", str(value))]
        corpora = ("--data.train", str(self.text / "train"), "--data.dev", str(self.text / "test"))
        done = proof.command(
            "keras_transformer.train", "--run", str(run), *corpora, *words, *options
        )
        proof.check(done, name)
        return run

    def compare(self, run: Path, sources: list[str], dtype: str = "float32") -> dict[str, Any]:
        """Export a run, and compare it with what transformers computes."""
        name = f"{run.name}.{dtype}"
        exported = self.work / f"{name}.export"
        done = proof.command(
            "keras_transformer.export", "--run", str(run), "--to", str(exported),
            "--format", "marian-hf", "--dtype", dtype, "--dev_sentences", "0",
        )  # fmt: skip
        proof.check(done, f"{name}: export")
        warnings = [line for line in done.stdout.splitlines() if line.startswith("warning")]
        answers, logits = self.work / f"{name}.json", self.work / f"{name}.npz"
        settings = peers.SIZES["proof"] | {
            "variant": name,
            "folder": str(exported / "1"),
            "answers": str(answers),
            "logits": str(logits),
            "text": str(self.text),
            "sources": sources,
            "n_best_sentences": len(sources) // 5,
        }
        done = subprocess.run(
            [self.python, str(HERE / "foreign" / "exported_marian.py"), json.dumps(settings)],
            capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        proof.check(done, f"{name}: transformers")
        script = str(HERE / "foreign" / "exported_comparison.py")
        done = subprocess.run(
            [sys.executable, script, str(run), str(answers), str(logits), str(self.text)],
            capture_output=True, text=True, env=proof.environment(),
        )  # fmt: skip
        proof.check(done, f"{name}: comparison")
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {"run": run.name, "dtype": dtype, "warnings": warnings, **figures}


def rows(proved: Proof, place: Path, plain: list[str], tagged: list[str]) -> list[dict[str, Any]]:
    """Return the figures of each run.

    Args:
        proved: The comparison.
        place: Folder of the peers' models.
        plain: Sources.
        tagged: Sources, of which some begin with the tag of a language.
    """
    found = []

    def add(run: Path, sources: list[str], dtype: str = "float32") -> None:
        found.append(proved.compare(run, sources, dtype))
        print(json.dumps(found[-1], ensure_ascii=False), file=sys.stderr, flush=True)

    for name, variant in MODELS:
        run = proved.convert(place, name, variant)
        is_tagged = name == "hf_marian" and variant != "separate"
        add(run, tagged if is_tagged else plain)
        if (name, variant) == ("hf_marian", "shared"):
            add(run, tagged, "float16")
            add(proved.train("fine-tuned", TUNED, "--init_from", str(run)), plain)
    add(proved.train("trained here", TRAINED), plain)
    return found


def main() -> None:
    """Make models and runs, and compare."""
    arguments = parse()
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = (arguments.models or work / "models").resolve()
        text = work / "text"
        peers.write_text(text, "proof", arguments.data)
        for name, variant in MODELS:
            if not peers.answers_file(place, name, variant).is_file():
                peers.make(place, name, variant, "proof", text, arguments.venvs.resolve())
        pairs = corpus.read_pairs({"text": str(text)}, "test")[: arguments.sentences]
        plain = [pair[0] for pair in pairs]
        tagged = [f">>deu<< {line}" if n % 4 == 0 else line for n, line in enumerate(plain)]
        python = environments.python(arguments.venvs.resolve(), "hugging-face")
        figures = rows(Proof(python, work, text), place, plain, tagged)
    if arguments.json:
        lines = json.dumps(figures, indent=1, ensure_ascii=False)
        arguments.json.write_text(f"{lines}\n", "utf-8")


if __name__ == "__main__":
    main()
