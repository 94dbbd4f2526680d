"""What the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before anything imports TensorFlow: its log would bury a failure.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora (multi30k, tatoeba_en_zh); skips where it is absent."""
    path = ROOT / os.environ.get("KERAS_TRANSFORMER_DATA", "../shared/data")
    if not path.is_dir():
        pytest.skip(f"no corpora at {path}: set KERAS_TRANSFORMER_DATA to their folder")
    return path
