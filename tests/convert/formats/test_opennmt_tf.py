"""OpenNMT-tf 2: what the checkpoint holds, what it does not hold, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.formats import opennmt_tf
from keras_transformer.convert.readers.tf_checkpoint import SUFFIX
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN
from tests.support.foreign_networks import OPENNMT_WORDS, SIZE, opennmt_tensors
from tests.support.reference_network import expected_paths
from tests.support.tf_checkpoints import write_checkpoint

TINY = 'model = lambda: models.get_model_from_catalog("TransformerTiny")\n'


def write(
    folder: Path, tensors: dict[str, np.ndarray] | None = None, described: bool = True
) -> Any:
    tensors = opennmt_tensors() if tensors is None else tensors
    write_checkpoint(folder, tensors, suffix=SUFFIX)
    (folder / "en.vocab").write_text("".join(f"{word}\n" for word in OPENNMT_WORDS))
    if described:
        (folder / "model_description.py").write_text(TINY)
    return tensors


def read(source: Path, **settings: Any) -> ForeignModel:
    return opennmt_tf.read(source, ConvertSettings(**settings))


def test_settings_and_weights(tmp_path: Path) -> None:
    tensors = write(tmp_path)
    assert opennmt_tf.recognises(tmp_path)
    model = read(tmp_path)
    expected = {
        "model.heads": 2,
        "model.norm": "pre",
        "model.final_norm": "auto",
        "model.activation": "relu",
        "model.layer_norm_epsilon": 1e-3,
        "model.position_layout": "halves",
        "model.position_rates": "tensor2tensor",
        "model.first_position": 1,
        "model.embeddings": "tied",
        "model.output_bias": True,
        "data.source_end": False,
        "search.beam": 4,
        "search.alpha": 0.0,
        "search.max_factor": 0.0,
        "search.max_extra": 250,
    }
    assert expected.items() <= model.settings.items()
    assert set(model.weights) == expected_paths(model)
    matrix = tensors["model/examples_inputter/features_inputter/embedding"]
    for number, row in ((PAD, 0), (UNKNOWN, SIZE - 1), (START, 1), (END, 2)):
        assert np.array_equal(model.weights["embedding/matrix"][number], matrix[row])
    bias = tensors["model/decoder/output_layer/bias"]
    assert model.weights["embedding/output_bias"][UNKNOWN] == bias[-1]
    for ours, theirs in (
        (
            "encoder/layers/1/self_attention/key",
            "encoder/layers/1/self_attention/layer/linear_keys",
        ),
        (
            "decoder/layers/0/cross_attention/output",
            "decoder/layers/0/attention/0/layer/linear_output",
        ),
        ("decoder/layers/0/feed_forward/inner", "decoder/layers/0/ffn/layer/inner"),
    ):
        assert np.array_equal(model.weights[f"{ours}_kernel"], tensors[f"model/{theirs}/kernel"])
        assert np.array_equal(model.weights[f"{ours}_bias"], tensors[f"model/{theirs}/bias"])


def test_norm_after_and_three_matrices(tmp_path: Path) -> None:
    tensors = write(tmp_path, opennmt_tensors(pre=False, shared=False, bias=False))
    model = read(tmp_path)
    assert model.settings["model.norm"] == "post"
    assert model.settings["model.embeddings"] == "untied"
    assert model.settings["model.attention_bias"] is False
    assert set(model.weights) == expected_paths(model)
    kernel = tensors["model/decoder/output_layer/kernel"]
    assert np.array_equal(model.weights["projection/matrix"][START], kernel[:, 1])


def test_heads_are_not_in_the_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, described=False)
    with pytest.raises(ConvertError, match=r"give --heads N .*the width is 8"):
        read(tmp_path)
    model = read(tmp_path, heads=4, activation="gelu", source_end="yes")
    assert model.settings["model.heads"] == 4
    assert model.settings["model.activation"] == "gelu"
    assert model.settings["data.source_end"] is True
    with pytest.raises(ConvertError, match="--heads: expected a divisor of the width 8, got 3"):
        read(tmp_path, heads=3)


def test_settings_of_the_run_beside_the_checkpoint(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "en.vocab").rename(tmp_path / "words.txt")
    options = {
        "model_dir": "run",
        "data": {
            "source_vocabulary": "/other/words.txt",
            "target_vocabulary": "words.txt",
            "source_sequence_controls": {"end": True},
        },
        "params": {"beam_width": 6, "length_penalty": 0.6, "coverage_penalty": 0.2},
    }
    (tmp_path / "data.yml").write_text(yaml.safe_dump(options))
    model = read(tmp_path)
    expected = {"data.source_end": True, "search.beam": 6, "search.alpha": 0.6}
    assert expected.items() <= model.settings.items()
    assert any("coverage_penalty 0.2" in note for note in model.notes)
    options["data"]["source_sequence_controls"]["start"] = True
    (tmp_path / "data.yml").write_text(yaml.safe_dump(options))
    with pytest.raises(ConvertError, match="begin with a start token"):
        read(tmp_path)


def test_learned_positions_count_from_one(tmp_path: Path) -> None:
    table = np.arange(48, dtype=np.float32).reshape(6, 8)
    names = [f"model/{side}/position_encoder/embedding" for side in ("encoder", "decoder")]
    write(tmp_path, opennmt_tensors() | dict.fromkeys(names, table))
    model = read(tmp_path)
    assert np.array_equal(model.weights["source_positions/table"], table[1:])
    assert model.settings["model.max_positions"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda names: {name.removeprefix("model/"): names[name] for name in names},
            "checkpoint of version 1 is upgraded when OpenNMT-tf 2 loads it",
        ),
        (
            lambda names: (
                names
                | {
                    "model/encoder/layers/0/self_attention/layer/relative_position_keys": np.ones(
                        [3, 4]
                    )
                }
            ),
            "relative positions cannot be converted",
        ),
        (lambda names: names | {"model/other": np.ones([3])}, "found also model/other"),
        (
            lambda names: {name: value for name, value in names.items() if "features" not in name},
            "several sources",
        ),
    ],
)
def test_refused(change: Any, message: str, tmp_path: Path) -> None:
    write(tmp_path, change(opennmt_tensors()))
    with pytest.raises(ConvertError, match=message):
        read(tmp_path)


def test_vocabularies_of_other_models(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "en.vocab").write_text("a\nb\n")
    with pytest.raises(ConvertError, match=r"of 10 lines, found en.vocab; .*--source_vocabulary"):
        read(tmp_path)
    with pytest.raises(ConvertError, match="expected the lines <blank>, <s>, </s>"):
        read(tmp_path, source_vocabulary=str(tmp_path / "en.vocab"))
