"""The command that writes the corpus."""

from __future__ import annotations

import bz2
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.data.phrasebook import FILE

ROOT = Path(__file__).resolve().parents[3]


def _digest(path: Path) -> str:
    return hashlib.sha256(bz2.decompress(path.read_bytes())).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "12345"])
def test_the_generator_writes_the_shipped_corpus(tmp_path: Path, seed: str) -> None:
    path = tmp_path / "again.txt.bz2"
    command = [sys.executable, "-m", "tools.phrasebook", "--to", str(path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
    # Digests of the text, because versions of bzip2 may compress differently.
    assert _digest(path) == _digest(FILE)
