"""What the tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def talkative() -> Callable[[Any], Any]:
    """Gives a small model with projection "projection" random weights that are sure of what
    they say: whatever it says, it must say it reliably."""
    import numpy as np

    from keras_transformer.data.tokenizer import END

    def change(model: Any) -> Any:
        random = np.random.default_rng(7)
        for weight in model.weights:  # wide, so that some tokens are clearly better than others
            noise = random.normal(0.0, 1.2, weight.shape)
            # Gains and biases start from 1 and 0; matrices start at random, which must not count.
            weight.assign(weight + noise if len(weight.shape) == 1 else noise)
        # Mostly words rather than bytes, and END often enough.
        (table,) = model.get_layer("projection").weights
        rows = table.numpy()
        rows[END + 1 : END + 257] = 0.0
        rows[END] *= 1.5
        table.assign(rows)
        return model

    return change
