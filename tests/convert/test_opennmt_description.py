"""Literals of model_description.py; the file is never run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.opennmt_description import Description, read_description

CATALOG = "from opennmt import models\nmodel = lambda: models.get_model_from_catalog({!r})\n"
CLASS = """import opennmt as onmt
import tensorflow as tf

class MyModel(onmt.models.Transformer):
    def __init__(self):
        super().__init__(num_layers=4, num_heads={heads}, ffn_activation={activation})

model = MyModel
"""


def description(folder: Path, text: str) -> Description:
    path = folder / "model_description.py"
    path.write_text(text)
    return read_description(path)


@pytest.mark.parametrize(
    ("name", "heads", "source_end"),
    [("TransformerBaseSharedEmbeddings", 8, False), ("ScalingNmtEnDe", 16, True)],
)
def test_names_of_the_catalog(name: str, heads: int, source_end: bool, tmp_path: Path) -> None:
    found = description(tmp_path, CATALOG.format(name))
    assert found == Description(name, heads, "relu", source_end)
    short = f"import opennmt\nmodel = lambda: opennmt.models.{name}()\n"
    assert description(tmp_path, short) == found


@pytest.mark.parametrize(
    ("activation", "ours"),
    [
        ("tf.nn.relu", "relu"),
        ("onmt.layers.gelu", "gelu_tanh"),
        ("tf.nn.gelu", "gelu"),
        ("tf.nn.swish", "silu"),
        ("lambda x: x", ""),
    ],
)
def test_arguments_of_a_class(activation: str, ours: str, tmp_path: Path) -> None:
    found = description(tmp_path, CLASS.format(heads=4, activation=activation))
    assert (found.model, found.heads, found.activation) == ("", 4, ours)


def test_values_that_only_code_could_give_are_not_known(tmp_path: Path) -> None:
    found = description(tmp_path, CLASS.format(heads="HEADS", activation="tf.nn.relu"))
    assert found.heads == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CATALOG.format("TransformerRelative"), "relative positions cannot be converted"),
        (CATALOG.format("NMTSmallV1"), "expected one of Transformer, .*, got NMTSmallV1"),
        (CATALOG.format("TransformerBig") + CATALOG.format("TransformerBase"), "one model, got"),
        ("f(num_heads=4)\nf(num_heads=8)\n", "expected one value of num_heads"),
        (CLASS.format(heads=8, activation="tf.nn.tanh"), "ffn_activation: expected one of"),
        ("model = (", "expected Python code, got SyntaxError"),
        ("(" * 5000, "expected Python code"),
    ],
)
def test_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=message):
        description(tmp_path, text)


def test_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    description(tmp_path, "open('ran', 'w')\n__import__('os').system('touch ran')\n")
    assert os.listdir(tmp_path) == ["model_description.py"]
