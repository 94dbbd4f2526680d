"""Proof for one converted model: comparison, serving, fine-tuning.

Every step is a command that a user could give, in this package's environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import corpus
import peers
from contestants.process import ROOT

FOLDER = Path(__file__).resolve().parent
Figures = dict[str, Any]

SERVED = 100
"""Sentences that the exported model translates."""
UPDATES = 50
"""Of fine-tuning."""
TUNING = {
    "data.max_tokens": 100,
    "train.max_steps": UPDATES,
    "train.checkpoint_every": UPDATES,
    "train.average": 1,
    "train.warmup_steps": 10,
    # A constant rate of about 0.001 for a small model.
    "train.learning_rate_factor": 0.03,
    "train.batch_tokens": 1500,
    "train.dev_sentences": 0,
    "train.best_by": "loss",
}


def prove(place: Path, name: str, variant: str, work: Path, text: Path) -> Figures:
    """Convert a model and compare it with its own system.

    The first model of a format is exported, served and fine-tuned too.

    Args:
        place: Folder of the models and the peers' numbers.
        name: Format.
        variant: Model.
        work: Folder for the run, the export and fine-tuning.
        text: Folder of the text that the peers learned from.

    Raises:
        SystemExit: A command failed where it should not.
    """
    peer, run = peers.PEERS[name], work / "run"
    found = json.loads(peers.answers_file(place, name, variant).read_text(encoding="utf-8"))
    figures: Figures = {"format": name, "variant": variant, "peer": found["peer"]}
    figures["versions"] = found["versions"]
    options = peer.options.get(variant, ())
    source = str(peers.model_folder(place, name, variant))
    done = command("keras_transformer.convert", source, "--run", str(run), *options)
    if variant in peer.refused:
        if not done.returncode:
            raise SystemExit(f"{name} {variant}: expected a refusal, was converted")
        return figures | {"refused": done.stderr.strip().rpartition(": ")[2]}
    check(done, f"{name} {variant}: conversion")
    figures["notes"] = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
    file = str(peers.answers_file(place, name, variant))
    done = subprocess.run(
        [sys.executable, str(FOLDER / "comparison.py"), str(run), file],
        capture_output=True, text=True, env=environment(),
    )  # fmt: skip
    check(done, f"{name} {variant}: comparison")
    figures |= json.loads(done.stdout.splitlines()[-1])
    if variant != peer.variants[0]:
        return figures
    figures["served"] = served(run, work, found)
    return figures | tuned(run, work, text, words=found.get("words", False))


def export_own(place: Path, work: Path) -> None:
    """Write the model ``peers.OWN``: convert OpenNMT-tf's model and export it to CTranslate2."""
    run, export = work / "run", work / "export"
    source = str(peers.model_folder(place, "opennmt_tf", "shared"))
    check(command("keras_transformer.convert", source, "--run", str(run)), "conversion")
    options = ["--run", str(run), "--to", str(export), "--format", "ctranslate2"]
    check(command("keras_transformer.export", *options), "export")
    shutil.copytree(export / "1", peers.model_folder(place, *peers.OWN))


def command(module: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of this package."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=given, capture_output=True, text=True, env=environment(), cwd=ROOT,
    )  # fmt: skip


def environment() -> dict[str, str]:
    """Return the environment of our commands."""
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
    }


def check(done: subprocess.CompletedProcess[str], step: str) -> None:
    """End the program if a command failed."""
    if done.returncode:
        raise SystemExit(f"{step}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")


def served(run: Path, work: Path, found: Figures) -> Figures:
    """Export the run; translate with TensorFlow's C++ runtime, as TensorFlow Serving does.

    Returns:
        ``sentences`` whose translation ends, and those ``equal`` to the other system's greedy
        one.
    """
    options = ["--run", str(run), "--to", str(work / "export"), "--search.beam", "1"]
    if most := str(found["search"].get("most", "")):  # the limit under which the peer translated
        options += ["--search.max_factor", "0", "--search.max_extra", most]
        options += ["--search.max_length", most]
    done = command("keras_transformer.export", *options)
    check(done, "export")
    # At the limit of length some systems force the end token, others leave it out.
    pairs = [
        (line, one["text"])
        for line, one in zip(found["sources"], found["greedy"], strict=True)
        if one["ended"]
    ][:SERVED]
    lines, expected = [line for line, _ in pairs], [text for _, text in pairs]
    requests = [
        json.dumps({"inputs": {"text": lines[first : first + 10]}})
        for first in range(0, len(lines), 10)
    ]
    done = command(
        "tests.support.tf_c_session", str(work / "export" / "1"), given="\n".join(requests) + "\n"
    )
    check(done, "serving")
    outputs = [json.loads(line)["outputs"] for line in done.stdout.splitlines()]
    texts = [text for reply in outputs for text in reply["translation"]]
    equal = sum(
        " ".join(own.split()) == " ".join(other.split())
        for own, other in zip(texts, expected, strict=True)
    )
    return {"sentences": len(texts), "equal": equal}


def tuned(run: Path, work: Path, text: Path, words: bool) -> Figures:
    """Fine-tune the run for some updates.

    Args:
        run: The converted run.
        work: Folder for the corpus and the new run.
        text: Folder of the peers' text.
        words: Whether the model reads words, which the peer has left in ``text``.

    Returns:
        ``dev_loss``: nats per token of held-out text before and after.
    """
    name = "words." if words else ""
    data = work / "data"
    data.mkdir()
    for split, count in (("train", 2000), ("test", 200)):
        sides = {
            side: (text / f"{name}{split}.{side}").read_text(encoding="utf-8").splitlines()[:count]
            for side in ("source", "target")
        }
        corpus.write_pairs(data, split, list(zip(*sides.values(), strict=True)))
    new = work / "tuned"
    options = [word for key, value in TUNING.items() for word in (f"--{key}", str(value))]
    done = command(
        "keras_transformer.train", "--init_from", str(run), "--run", str(new),
        "--data.train", str(data / "train"), "--data.dev", str(data / "test"),
        "--data.source", "source", "--data.target", "target", *options,
    )  # fmt: skip
    check(done, "fine-tuning")
    losses = []
    for folder in (run, new):
        done = command(
            "keras_transformer.score", "--run", str(folder), "--source",
            str(data / "test.source"), "--target", str(data / "test.target"),
        )  # fmt: skip
        check(done, "scoring")
        losses.append(loss(done.stdout))
    return {"dev_loss": losses}


def loss(scores: str) -> float:
    """Return nats per token from the output of ``score``."""
    rows = [re.split(r"\t", line) for line in scores.splitlines()]
    return -sum(float(row[0]) for row in rows) / sum(int(row[1]) for row in rows)
