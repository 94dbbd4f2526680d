"""Models of real shapes, and the walks of docs/conversion.md, without other systems."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.formats import hf_marian, marian
from keras_transformer.convert.settings import ConvertSettings

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    for folder in (FOLDER, FOLDER / "foreign"):
        monkeypatch.syspath_prepend(str(folder))
    for name in ("corpus", "pieces", "real_shapes", "walks", "contestants"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import corpus
    import real_shapes
    import walks

    return {"corpus": corpus, "real_shapes": real_shapes, "walks": walks}


def test_both_forms_of_a_model_are_one_network(modules: Any, tmp_path: Path) -> None:
    shape = modules["real_shapes"].Shape(16, 24, 1, 2, vocabulary=260, pieces=150, learned=100)
    text = list(zip(*modules["corpus"].made_up(200, seed=1), strict=True))
    folders = (tmp_path / "hugging-face", tmp_path / "release")
    modules["real_shapes"].write_opus(*folders, shape, text)

    first = hf_marian.read(folders[0], ConvertSettings(position_rates="tensor2tensor"))
    second = marian.read(folders[1], ConvertSettings())

    names = ("heads", "d_ff", "activation", "position_layout", "position_rates")
    for name in (f"model.{name}" for name in names):
        assert first.settings[name] == second.settings[name], name
    assert first.tokenizer.fingerprint == second.tokenizer.fingerprint
    assert first.weights.keys() == second.weights.keys()
    for name, value in first.weights.items():
        # Marian's form has no padding, so no bias of it.
        kept = slice(1 if name == "embedding/output_bias" else 0, None)
        np.testing.assert_array_equal(value[kept], second.weights[name][kept], err_msg=name)


def test_a_late_position_is_nearer_to_the_end_token(modules: Any) -> None:
    real_shapes = modules["real_shapes"]
    end = real_shapes.random_network(real_shapes.Shape(64, 24, 1, 2), 100)["Wemb"][0]

    early, late = (end @ real_shapes.sinusoids(place, 64) for place in (1, 24))
    assert late > 0 > early


def test_the_commands_of_a_walk(modules: Any) -> None:
    walks = modules["walks"]
    first, _, third = ([*walks.commands(name)] for name in walks.WALKS)

    assert first[0].startswith("python -m keras_transformer.convert opus-mt-en-de ")
    assert first[-1].startswith("curl ")
    assert not any("docker" in command for command in first)
    assert [command.split()[2].partition(".")[2] for command in third] == [
        *("convert", "train", "evaluate", "export")
    ]
    assert "\\" not in "".join(third)


def test_a_command_is_measured(modules: Any, tmp_path: Path) -> None:
    walks = modules["walks"]

    row = walks.run("cat && echo done", tmp_path, "given\n")
    assert row["output"] == "given\ndone"
    assert 0 < row["seconds"] < 60
    assert row["mib"] > 0
    with pytest.raises(SystemExit, match=r"false\nsaid"):
        walks.run("echo said; false", tmp_path)
