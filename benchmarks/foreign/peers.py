"""Peers of the conversion proof: their scripts, environments and models."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import corpus
from contestants import environments

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Peer:
    """A peer that makes models of one format."""

    script: str
    environment: str
    """Of ``environments``."""
    variants: tuple[str, ...]
    """Models; the script explains them."""
    refused: tuple[str, ...] = ()
    """Models that no conversion can represent."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options of conversion by model, where the files do not say everything."""


# By format, in the order in which they are made: ctranslate2 converts models of earlier ones.
PEERS = {
    "hf_marian": Peer(
        "hugging_face.py",
        "hugging-face",
        ("shared", "separate", "float16"),
        # Hugging Face reads the sinusoids that the file holds, rounded to float16.
        options={"float16": ("--stored_positions", "true")},
    ),
    "marian": Peer("marian.py", "marian", ("shared", "separate", "pre")),
    "opennmt_tf": Peer(
        "opennmt_tf.py", "opennmt-tf", ("shared", "separate", "relative"), ("relative",)
    ),
    "joeynmt": Peer("joey.py", "joeynmt", ("pre", "post", "unset")),
    "fairseq": Peer("fairseq_peer.py", "fairseq", ("shared", "separate", "old")),
    "fsmt": Peer("fsmt.py", "hugging-face", ("separate",)),
    "ctranslate2": Peer("ct2.py", "ctranslate2", ("opennmt", "marian", "own")),
}

SIZES: dict[str, dict[str, Any]] = {
    # Small enough for the repository.
    "golden": {
        "d_model": 16,
        "pieces": 100,
        "rule": "identity",
        "short_tables": True,
        "updates": 600,
        "rate": 0.01,
        "seed": 1,
        "beam": 4,
        "most": 40,
        "sentences": 24,
        "n_best_sentences": 8,
    },
    "proof": {
        "d_model": 64,
        "pieces": 1000,
        "rule": "nmt_nfkc",
        "updates": 300,
        "rate": 0.003,
        "seed": 1,
        "beam": 4,
        "most": 60,
        "sentences": 500,
        "n_best_sentences": 60,
    },
}


def model_folder(place: Path, name: str, variant: str) -> Path:
    """Return the folder of a model; the peer's numbers are in ``answers_file``."""
    return place / name / variant


def answers_file(place: Path, name: str, variant: str) -> Path:
    """Return the file of the peer's numbers about a model."""
    return place / name / f"{variant}.json"


def make(place: Path, name: str, variant: str, size: str, text: Path, venvs: Path) -> None:
    """Let a peer make a model and write its own numbers.

    Args:
        place: Where models and numbers go.
        name: Format.
        variant: One of the peer's.
        size: Of ``SIZES``.
        text: Folder for training and test text, and scratch files.
        venvs: Folder of the environments.

    Raises:
        SystemExit: The peer failed; its last words follow.
    """
    peer = PEERS[name]
    folder = model_folder(place, name, variant)
    settings = SIZES[size] | {
        "variant": variant,
        "folder": str(folder),
        "answers": str(answers_file(place, name, variant)),
        "text": str(text),
    }
    if variant in peer.refused:
        settings["updates"] = 10
    if (name, variant) == ("opennmt_tf", "shared"):
        settings["ctranslate2"] = str(model_folder(place, "ctranslate2", "opennmt"))
    if name == "ctranslate2":
        origins = {"opennmt": ("opennmt_tf", "shared"), "marian": ("marian", "shared")}
        settings["origin"] = str(model_folder(place, *origins.get(variant, (name, variant))))
    python = environments.python(venvs, peer.environment)
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
    if peer.environment == "fairseq":
        environment["PYTHONPATH"] = str(environments.source(venvs, "fairseq"))
    done = subprocess.run(
        [python, str(FOLDER / peer.script), json.dumps(settings)],
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        raise SystemExit(f"{name} {variant}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    print(f"{name} {variant}: made", flush=True)


def write_text(text: Path, size: str, data: Path) -> None:
    """Write the text that all peers learn from and translate."""
    if size == "golden":
        pairs = corpus.made_up(400, seed=1)
        train, test = pairs[:360], pairs[360:]
    else:
        train = corpus.multi30k(data, "train", 6000)
        test = corpus.multi30k(data, "val", 500)
    corpus.write_pairs(text, "train", train)
    corpus.write_pairs(text, "test", test)


OWN = ("ctranslate2", "own")
"""The only model that this package writes; it is no golden one."""
