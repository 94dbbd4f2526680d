"""Saved and reloaded networks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config.model import Ablation
from keras_transformer.model import transformer
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from tests.support import model_options

SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [6, 6, 10, 3, 0]], "int32")
TARGET = np.array([[2, 7, 5, 9], [2, 8, 0, 0], [2, 11, 4, 0]], "int32")


def _logits(model: keras.Model) -> np.ndarray:
    inputs = {"source": tf.constant(SOURCE), "target": tf.constant(TARGET)}
    return model(inputs, training=False).numpy()


SAVED: dict[str, dict[str, Any]] = {
    "paper": {},
    "learned": {"norm": "pre", "positions": "learned", "embeddings": "decoder"},
    "rotary": {"norm": "pre", "positions": "rotary", "embeddings": "untied", "d_value": 6},
    "alibi": {"positions": "alibi", "embeddings": "untied", "heads": 4},
    "bfloat16": {"positions": "none", "dropout": 0.0, "dtype": "mixed_bfloat16"},
    **{name: {"ablation": name} for name in get_args(Ablation) if name != "none"},
    "all options": model_options.ALL,
    **{name: model_options.ONE[name] for name in ("gelu", "gelu_tanh", "gelu_sigmoid")},
    "normalized": model_options.ONE["embedding norm, learned"],
    "recurrent": {"architecture": "recurrent", "encoder_layers": 2, "decoder_layers": 2},
}

RELOAD = """
import sys
from pathlib import Path
import keras
import numpy as np
import keras_transformer.model.transformer

folder = Path(sys.argv[1])
inputs = dict(np.load(folder / "inputs.npz"))
results, used = {}, set()
for file in sorted(folder.glob("*.keras")):
    model = keras.models.load_model(file)
    results[file.stem] = model(inputs, training=False).numpy()
    results[file.stem + " variables"] = len(model.weights)
    used |= {type(layer) for layer in model._flatten_layers()}
registered = {
    item
    for item in keras.saving.get_custom_objects().values()
    if item.__module__.startswith("keras_transformer.")
}
assert len(registered) > 10, registered
assert registered <= used, registered - used  # no layer was left out
np.savez(folder / "results.npz", **results)
"""


@pytest.mark.slow
def test_reload_in_a_fresh_process(tiny_model: Any, tmp_path: Path) -> None:
    models = {name: tiny_model(**options) for name, options in SAVED.items()}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    np.savez(tmp_path / "inputs.npz", source=SOURCE, target=TARGET)
    subprocess.run(
        [sys.executable, "-c", RELOAD, str(tmp_path)],
        check=True,
        cwd=Path(transformer.__file__).parents[2],
    )
    results = np.load(tmp_path / "results.npz")
    for name, model in models.items():
        np.testing.assert_array_equal(results[name], _logits(model))
        assert results[name + " variables"] == len(model.weights)


def test_a_reloaded_model_decodes_and_stays_tied(tiny_model: Any, tmp_path: Path) -> None:
    model = tiny_model()
    model.save(tmp_path / "model.keras")
    twin = keras.models.load_model(tmp_path / "model.keras")
    token, position = tf.constant([2, 2, 2]), tf.constant(0)
    step, state = IncrementalDecoder(twin).start(tf.constant(SOURCE))
    logits, _ = step(token, position, step.select_and_reserve(state, [0, 1, 2], 1))
    np.testing.assert_allclose(logits, _logits(model)[:, 0], atol=1e-5)
    transformer.source_embedding(twin).matrix.assign(tf.zeros([13, 8]))
    assert not _logits(twin).any()
