"""Model of OpenNMT-tf's catalog with random weights: ``python opennmt_base.py SETTINGS``.

Writes the description and the checkpoint, with the optimizer's variables, as a training does. The
vocabulary is in the folder already; see ``real_shapes.py``. Runs in OpenNMT-tf's environment.

SETTINGS: ``folder``, ``model`` (name in the catalog).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import opennmt
import tensorflow as tf

_TYPICAL_LENGTH = 25
"""Tokens after which translations tend to end."""
_END = 2


def main() -> None:
    """Build and save the model."""
    settings = json.loads(sys.argv[1])
    folder = Path(settings["folder"])
    tf.random.set_seed(1)
    model = opennmt.config.load_model(str(folder), model_name=settings["model"])
    vocabulary = str(folder / "joint.vocab")
    model.initialize(
        {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary},
        params={"optimizer": "Adam", "learning_rate": 0.0002},
    )
    optimizer = model.get_optimizer()
    model.create_variables(optimizer=optimizer)
    end_late(model)
    checkpoint = opennmt.utils.checkpoint.Checkpoint(model, optimizer, model_dir=str(folder))
    checkpoint.save(step=1)


def end_late(model: Any) -> None:
    """Let the end token look like a late position, so that translations end."""
    embedding = model.labels_inputter.embedding
    width = embedding.shape[1]
    encoder = opennmt.layers.SinusoidalPositionEncoder()
    positions = encoder(tf.zeros([1, _TYPICAL_LENGTH + 1, width]))[0].numpy()
    direction = positions[-1] - positions[0]
    values = embedding.numpy()
    values[_END] = 2 * direction / np.linalg.norm(direction)
    embedding.assign(values)


if __name__ == "__main__":
    main()
