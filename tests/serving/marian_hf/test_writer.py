"""Folders for MarianMT: a converted model comes back, and nothing half written stays."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.conversion import convert
from keras_transformer.convert.readers.safetensors_file import SafetensorsFile
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.errors import UserError
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.marian_hf.generation import generation_config
from keras_transformer.serving.marian_hf.vocabulary import vocabularies
from keras_transformer.serving.settings import ExportError, ExportSettings
from tests.support.disk import file_size_limit

GOLDEN = Path(__file__).parents[2] / "convert" / "golden"
SETTINGS = ExportSettings(format="marian-hf")
FILES = {
    "model.safetensors",
    "config.json",
    "generation_config.json",
    "source.spm",
    "target.spm",
    "vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "export.json",
}
# Of config.json, what transformers adds by itself.
OTHERS = {"init_std", "is_decoder", "transformers_version"}


def quietly(line: str) -> None:
    """Ignore the progress."""


def converted(name: str, run: Path, **settings: Any) -> Run:
    return converted_folder(GOLDEN / name, run, **settings)


def converted_folder(folder: Path, run: Path, **settings: Any) -> Run:
    convert(folder, run, ConvertSettings(**settings), "", quietly, lambda: None)
    return Run.open(run)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run converted from MarianMT."""
    return converted("hf_marian/shared", tmp_path_factory.mktemp("shared") / "run")


def exported(run: Run, folder: Path, log: Any = quietly, **settings: Any) -> Path:
    options = dataclasses.replace(SETTINGS, **settings)
    return export(run, run.config.search, folder, options, log)


def values(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def assert_same_model(folder: Path, expected: Path) -> None:
    """Compare tensors, vocabularies and configurations."""
    found, wanted = (SafetensorsFile(each / "model.safetensors") for each in (folder, expected))
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
    for name in ("vocab.json", "target_vocab.json", "generation_config.json", "config.json"):
        assert (folder / name).exists() == (expected / name).exists()
        if (folder / name).exists():
            own, other = values(folder / name), values(expected / name)
            for key in OTHERS if name == "config.json" else ():
                other.pop(key, None)
            assert other.items() <= own.items() or name == "generation_config.json"
            assert all(own[key] == other[key] for key in own.keys() & other.keys())
    vocabulary = "vocab.json"
    assert list(values(folder / vocabulary)) == list(values(expected / vocabulary))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["shared", "separate"])
def test_a_converted_model_comes_back(variant: str, tmp_path: Path) -> None:
    run = converted(f"hf_marian/{variant}", tmp_path / "run")
    lines: list[str] = []
    version = exported(run, tmp_path / "m", lines.append)
    assert not any("warning" in line for line in lines)
    separate = {"target_vocab.json"} if variant == "separate" else set()
    assert {path.name for path in version.iterdir()} == FILES | separate
    assert_same_model(version, GOLDEN / "hf_marian" / variant)
    tokenizer = values(version / "tokenizer_config.json")
    expected = values(GOLDEN / "hf_marian" / variant / "tokenizer_config.json")
    for key in ("added_tokens_decoder", "separate_vocabs", "source_lang", "tokenizer_class"):
        assert tokenizer[key] == expected[key]
    card = values(version / "export.json")
    assert (card["format"], card["warnings"]) == ("marian-hf", [])
    assert card["generate"] == values(version / "generation_config.json")


@pytest.mark.slow
def test_a_run_of_marian_has_a_table_of_positions(tmp_path: Path) -> None:
    """It comes back as learned positions, and computes the same."""
    from keras_transformer.inference.translator import Translator

    run = converted("marian/shared", tmp_path / "run")
    lines: list[str] = []
    version = exported(run, tmp_path / "m", lines.append, max_tokens=30)
    text = "\n".join(lines)
    assert "model.layer_norm_epsilon 1e-06: MarianMT computes with 1e-05" in text
    assert "positions: MarianMT computes other ones" in text
    assert "longest output: the search of the run allows 3 times" in text
    table = SafetensorsFile(version / "model.safetensors")["model.decoder.embed_positions.weight"]
    longest = 3 * 29 + 3
    assert len(table) == values(version / "config.json")["max_position_embeddings"] == longest + 1
    again = converted_folder(version, tmp_path / "again", stored_positions=True)
    pairs = [("The cat sees two apples.", "Die Katze sieht zwei Äpfel."), ("A dog.", "Ein Hund.")]
    scores = [
        [row.log_probability for row in Translator.from_run(path).score(*zip(*pairs, strict=True))]
        for path in (run.path, again.path)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=2e-5)


@pytest.mark.slow
def test_float16(shared: Run, tmp_path: Path) -> None:
    version = exported(shared, tmp_path / "m", dtype="float16")
    tensors = SafetensorsFile(version / "model.safetensors")
    expected = SafetensorsFile(GOLDEN / "hf_marian" / "shared" / "model.safetensors")
    for name, tensor in tensors.items():
        assert tensor.dtype == np.float16
        np.testing.assert_array_equal(tensor, expected[name].astype(np.float16))
    assert values(version / "config.json")["dtype"] == "float16"


@pytest.mark.slow
def test_too_great_weights_and_a_full_disk_leave_nothing(shared: Run, tmp_path: Path) -> None:
    with file_size_limit(20_000), pytest.raises(UserError):
        exported(shared, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    run = converted("hf_marian/shared", tmp_path / "run")
    model = run.model()
    gamma = model.get_layer("encoder").layers[0].feed_forward.inner_bias
    gamma.assign(np.full(gamma.shape, 70_000.0))
    run.save_best(model)
    with pytest.raises(ExportError, match=r"float16: expected weights up to 65504.*layers.0.fc1"):
        exported(run, tmp_path / "m", dtype="float16")
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_search_settings(shared: Run) -> None:
    tokenizer = shared.tokenizer()
    source, target = tokenizer.source, tokenizer.target
    both, _ = vocabularies(source, target, (set(), set()), common=True)  # type: ignore[arg-type]
    search = dataclasses.replace(
        shared.config.search,
        allow_unknown=False,
        suppress=tuple(target.pieces([8])),
        beam=5,
        n_best=3,
        alpha=0.7,
        min_length=4,
        no_repeat_ngram=2,
    )
    options = generation_config(search, 20, both, target)
    assert options["bad_words_ids"] == [[both.pad], [1], [6]]  # id 8 is 6 there
    assert (options["num_beams"], options["num_return_sequences"]) == (5, 3)
    assert (options["max_length"], options["min_length"]) == (21, 5)  # the start token counts
    assert (options["length_penalty"], options["no_repeat_ngram_size"]) == (0.7, 2)
    short = generation_config(dataclasses.replace(search, min_length=50), 20, both, target)
    assert short["min_length"] == 20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "int8"}, "dtype: expected float32 or float16 for --format marian-hf"),
        (
            {"format": "saved_model", "dtype": "float16"},
            "dtype: expected float32, bfloat16 or int8 for --format saved_model",
        ),
    ],
)
def test_types_of_weights(settings: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        dataclasses.replace(SETTINGS, **settings)
