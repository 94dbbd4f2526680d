"""From a checkpoint to a run folder."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert import registry
from keras_transformer.convert.conversion import configuration, convert, describe
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.errors import UserError
from keras_transformer.run import Run
from tests.support.disk import file_size_limit
from tests.support.foreign_models import TAG, write_hf_folder, write_opus_folder

command = importlib.import_module("keras_transformer.convert.__main__")


def converted(source: Path, run: Path, **settings: Any) -> list[str]:
    lines: list[str] = []
    convert(source, run, ConvertSettings(**settings), "", lines.append, lambda: None)
    return lines


@pytest.fixture
def opus(tmp_path: Path) -> Path:
    write_opus_folder(tmp_path / "opus-mt-en-de")
    return tmp_path / "opus-mt-en-de"


def test_the_configuration_holds_the_settings_of_the_source(opus: Path) -> None:
    model = registry.load("marian").read(opus, ConvertSettings())
    config = configuration(model, ConvertSettings(target_language="ger"), opus)
    assert (config.data.source, config.data.target) == ("en", "ger")
    assert (config.model.activation, config.search.beam) == ("silu", 6)
    network, vocabulary, search = describe(model, config)
    assert "2 + 1 layers, d_model 16, 2 heads, d_ff 24, silu, post-norm" in network
    assert "en to ger, unigram" in vocabulary
    assert search == "search: beam 6, power 1, at most 3 × source + 3 tokens"


def test_values_out_of_range_name_the_field(opus: Path) -> None:
    model = registry.load("marian").read(opus, ConvertSettings())
    model.settings["model.d_model"] = 10**9
    with pytest.raises(ConvertError, match="cannot be represented: model.d_model: expected"):
        configuration(model, ConvertSettings(), opus)


@pytest.mark.slow
def test_a_run_folder_appears_and_translates(opus: Path, tmp_path: Path) -> None:
    from keras_transformer.inference.translator import Translator

    run = tmp_path / "runs" / "en-de"
    lines = converted(opus, run, dtype="float16")

    assert lines[0].startswith("format: marian")
    assert "agree in 1,000 random lines" in "\n".join(lines)
    assert f"export --run {run} --to export/models/en-de" in lines[-1]
    assert "the run does not apply preprocess.sh" in (run / "log.txt").read_text("utf-8")
    opened = Run.open(run)
    assert opened.config.data.train == ""
    assert TAG in "".join(opened.tokenizer().source.pieces(range(opened.tokenizer().source.size)))
    texts = Translator.from_run(run).translate(["a small dog", ""])
    assert len(texts) == 2


@pytest.mark.slow
def test_every_weight_arrives(tmp_path: Path) -> None:
    from keras_transformer.named_weights import named_weights

    write_hf_folder(tmp_path / "hf")
    converted(tmp_path / "hf", tmp_path / "run")
    read = registry.load("hf_marian").read(tmp_path / "hf", ConvertSettings())
    variables = named_weights(Run.open(tmp_path / "run").model())
    assert variables.keys() == read.weights.keys()
    for path, weight in read.weights.items():
        np.testing.assert_array_equal(variables[path].numpy(), weight)


@pytest.mark.slow
def test_a_full_disk_and_an_interruption_leave_nothing(
    opus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with file_size_limit(4_000), pytest.raises(UserError):
        converted(opus, run)
    assert not run.exists()

    def interrupt(self: Run, model: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "save_best", interrupt)
    with pytest.raises(KeyboardInterrupt):
        converted(opus, run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opus-mt-en-de"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "SOURCE is missing"),
        (["opus-mt-en-de"], "--run DIR is missing"),
        (["opus-mt-en-de", "--run", "opus-mt-en-de"], "expected a new or an empty folder"),
        (["missing", "--run", "r"], "missing: expected a file or folder of a model, found none"),
        (["opus-mt-en-de", "--run", "r", "--from", "marain"], "did you mean marian"),
        (["opus-mt-en-de", "--run", "r", "--dtype", "int8"], "dtype: expected one of float32"),
        (
            ["opus-mt-en-de", "--run", "r", "--position_rates", "paper"],
            "--position_rates: expected a source of the format hf_marian, got marian",
        ),
        (["gs://bucket/m", "--run", "r"], "SOURCE: expected a path on this machine"),
    ],
)
def test_mistakes_are_explained_before_tensorflow_starts(
    words: list[str],
    message: str,
    opus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(opus.parent)
    monkeypatch.setattr(command, "import_tensorflow", lambda: pytest.fail("TensorFlow starts"))
    assert command.main(words) == 2
    assert message in capsys.readouterr().err
    assert not Path("r").exists()
