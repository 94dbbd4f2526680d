"""The commands of the documents run, with smaller sizes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, RUN, TESTED_ELSEWHERE, blocks

pytestmark = pytest.mark.slow

STAND_IN = Path(__file__).with_name("stand_in.py")
PROGRAMS = ("python", "curl", "tensorboard")
WORDS = {
    "small": "kleiner",
    "big": "großer",
    "old": "alter",
    "dog": "Hund",
    "boy": "Junge",
    "man": "Mann",
    "bird": "Vogel",
    "runs": "rennt",
    "sleeps": "schläft",
    "sings": "singt",
    "eats": "isst",
    "here": "hier",
    "there": "dort",
    "today": "heute",
}
KINDS = (
    ["small", "big", "old"],
    ["dog", "boy", "man", "bird"],
    ["runs", "sleeps", "sings", "eats"],
)
PLACES = ["here", "there", "today"]
RUNS = [
    document
    for document in RUN
    if document.name not in TESTED_ELSEWHERE
    and any(block.language in ("sh", "python") and not block.reason for block in blocks(document))
]


def pairs() -> list[tuple[str, str]]:
    """Return 144 English sentences and their translations."""
    found = []
    for words in itertools.product(*KINDS, PLACES):
        german = [WORDS[word] for word in words]
        found.append((f"A {' '.join(words)}.", f"Ein {' '.join(german)}."))
    return found


def write_corpora(data: Path) -> None:
    """Write the files that the documents name, a few sentences each."""
    everything = pairs()
    parts = {"train": everything, "val": everything[::20], "test": everything[::50]}
    multi30k = {"train": "train", "val": "val", "test": "test_2016_flickr"}
    for folder in ("multi30k", "tatoeba_en_zh"):
        (data / folder).mkdir(parents=True)
    for part, rows in parts.items():
        english, other = ("".join(f"{row[side]}\n" for row in rows) for side in (0, 1))
        for prefix in (data / part, data / "multi30k" / multi30k[part]):
            prefix.with_name(f"{prefix.name}.en").write_text(english, encoding="utf-8")
            for language in ("de", "fr"):
                prefix.with_name(f"{prefix.name}.{language}").write_text(other, encoding="utf-8")
        tsv = "".join(f"{source}\t{target}\n" for source, target in rows)
        for name in (part, "dev" if part == "val" else part):
            for folder in (data, data / "tatoeba_en_zh"):
                (folder / f"{name}.tsv").write_text(tsv, encoding="utf-8")
    tokenised = "".join(f"{target[:-1].lower()} .\n" for _, target in parts["test"])
    path = data / "multi30k" / "test_2016_flickr.lc.norm.tok.de"
    path.write_text(tokenised, encoding="utf-8")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a copy of the repository with corpora, in which the programs are stand-ins."""
    path = tmp_path_factory.mktemp("workspace")
    for item in ROOT.iterdir():
        if item.name not in (".git", ".venv", "data", "runs", "export", "site"):
            (path / item.name).symlink_to(item)
    (path / "export").mkdir()
    for item in (ROOT / "export").iterdir():
        if item.name not in ("models", "ctranslate2", "marian-hf"):
            (path / "export" / item.name).symlink_to(item)
    write_corpora(path / "data")
    programs = path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" {name} "$@"\n')
        program.chmod(0o755)
    (programs / "activate").touch()
    (path / ".venv" / ".installed").touch()  # newer than the requirements: `make` installs nothing
    state = path / ".venv" / "stand_in.json"
    state.write_text(json.dumps({"done": [], "ports": {}}), encoding="utf-8")
    yield path
    subprocess.run([sys.executable, STAND_IN, "stop"], env=environment(path), check=True)


def environment(workspace: Path) -> dict[str, str]:
    programs = workspace / ".venv" / "bin"
    return os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "STAND_IN": str(workspace / ".venv" / "stand_in.json"),
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
    }


@pytest.mark.parametrize("document", RUNS, ids=lambda path: path.stem)
def test_commands_run(document: Path, workspace: Path) -> None:
    """The shell blocks one by one, then the Python blocks as one program."""
    running = [block for block in blocks(document) if not block.reason]
    shell = [block for block in running if block.language == "sh"]
    programs = [(str(block), ["bash", "-euo", "pipefail", "-c", block.text], "") for block in shell]
    python = "\n".join(block.text for block in running if block.language == "python")
    if python:
        programs.append((document.name, ["python", "-"], python))
    for name, command, program in programs:
        done = subprocess.run(
            command,
            cwd=workspace,
            env=environment(workspace),
            input=program,
            capture_output=True,
            text=True,
            timeout=600,
        )
        text = program or command[-1]
        assert done.returncode == 0, f"{name}:\n{text}\n{done.stdout}\n{done.stderr}"


def test_invalid_options_are_refused_by_the_stand_in(workspace: Path) -> None:
    """A stand-in passes options on, so invalid ones are refused as usual."""
    done = subprocess.run(
        ["python", "-m", "keras_transformer.train", "--no_such_option", "1"],
        cwd=workspace,
        env=environment(workspace),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert "unknown option --no_such_option" in done.stderr
