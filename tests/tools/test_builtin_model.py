"""The generator of built-in models: float16, the same bytes each time, refused runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from keras_transformer.config import from_dict
from keras_transformer.errors import UserError
from keras_transformer.model import transformer
from keras_transformer.presets import preset
from keras_transformer.run import Run
from tools import builtin_model


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with random weights that says it was trained on the built-in corpus."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.tsv").write_text("".join(f"a {n}\tb {n}\n" for n in range(30)))
    model = {"d_model": 4, "heads": 1, "d_ff": 4, "encoder_layers": 1, "decoder_layers": 1}
    corpus = {"train": str(folder / "text.tsv"), "dev": str(folder / "text.tsv")}
    config = from_dict({"model": model, "data": {**corpus, "vocabulary_size": 300}})
    created, _ = Run.create(folder / "run", config, lambda line: None)
    built = transformer.build(created.config.model)
    for weight in built.weights:
        weight.assign(keras.random.normal(weight.shape, seed=1))
    created.save_best(built)
    (created.path / "metrics.jsonl").write_text('{"step": 5}\n')
    data = dataclasses.replace(created.config.data, train="builtin:phrasebook", dev="")
    return dataclasses.replace(created, config=dataclasses.replace(created.config, data=data))


@pytest.fixture(autouse=True)
def scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the translation of the test set."""
    found = {"sentences": 1, "bleu": 12.345, "bleu_signature": "b"}
    found |= {"chrf": 6.0, "chrf_signature": "c"}
    monkeypatch.setattr(builtin_model, "_test_scores", lambda run: found)


def test_the_model_is_a_run_in_float16(run: Run, tmp_path: Path) -> None:
    folder = builtin_model.write(run, tmp_path)
    assert folder == tmp_path / "phrasebook"
    opened = Run.open(folder)
    assert opened.config == run.config
    original, rounded = run.model().get_weights(), opened.model().get_weights()
    for before, after in zip(original, rounded, strict=True):
        np.testing.assert_array_equal(after, before.astype(np.float16))
    described = json.loads((folder / "card.json").read_text("utf-8"))
    assert (described["steps"], described["preset"]) == (5, None)
    assert described["test"]["bleu"] == described["test"]["float32_bleu"] == 12.35
    assert "last session" not in described["versions"]


def test_each_call_writes_the_same_bytes(run: Run, tmp_path: Path) -> None:
    def files() -> dict[str, bytes]:
        folder = builtin_model.write(run, tmp_path)
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    assert files() == files()


def test_unsuitable_runs_are_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dataclasses.replace(run.config.data, train="builtin:phrasebook:dev")
    other = dataclasses.replace(run, config=dataclasses.replace(run.config, data=data))
    with pytest.raises(UserError, match="expected a run on builtin:phrasebook, got one on"):
        builtin_model.write(other, tmp_path)
    monkeypatch.setattr(builtin_model, "MAX_BYTES", 1000)
    with pytest.raises(UserError, match="expected at most 1000 bytes, got "):
        builtin_model.write(run, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_weights_beyond_float16_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file["layers/vars/0"] = np.array([1.0, -70_000.0], np.float32)
    with pytest.raises(UserError, match="layers/vars/0 is too large for float16"):
        builtin_model.write_float16(tmp_path / "old.h5", tmp_path / "new.h5")


def test_the_preset_is_found() -> None:
    demo = preset("demo")
    assert builtin_model._is_preset("demo", Run(Path("run"), demo))
    changed = dataclasses.replace(demo, train=dataclasses.replace(demo.train, max_steps=7))
    assert not builtin_model._is_preset("demo", Run(Path("run"), changed))
