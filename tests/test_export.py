"""The options of ``export``; the written files are tested with ``serving``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from keras_transformer import export, run
from keras_transformer.config import Config
from keras_transformer.serving import export as serving_export


@pytest.fixture
def exported(monkeypatch):
    """The arguments of each call of an exporter."""
    calls = []

    def fake(opened, search, directory, settings, log):
        calls.append((search, directory, settings))
        return directory / "1"

    monkeypatch.setattr(serving_export, "export", fake)
    monkeypatch.setattr(run.Run, "open", lambda path: run.Run(path, Config()))
    monkeypatch.setattr(run.Run, "check_weights", lambda opened: None)
    return calls


def test_options_of_the_command_line(exported, capsys) -> None:
    options = (
        "--run r --to models/en-de --version 7 --dtype int8 --max_tokens 99 --dev_sentences 5 "
        "--max_bleu_loss 0.5 --search.beam 6 --search.alpha 1.5"
    )
    status = export.main(options.split())
    assert status == 0
    ((search, directory, settings),) = exported
    assert (search.beam, search.alpha, search.max_extra) == (6, 1.5, 50)
    assert directory == Path("models/en-de")
    assert (settings.version, settings.dtype, settings.max_tokens) == (7, "int8", 99)
    assert (settings.dev_sentences, settings.max_bleu_loss) == (5, 0.5)
    assert capsys.readouterr().out == "starting TensorFlow\nmodels/en-de/1\n"


def test_defaults_come_from_the_run(exported) -> None:
    assert export.main(["--run", "r", "--to", "m"]) == 0
    ((search, _, settings),) = exported
    assert search == Config().search
    assert (settings.version, settings.dtype, settings.max_tokens) == (None, "float32", None)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--to m", "--run DIR is missing"),
        ("--run r", "--to DIR is missing"),
        ("--run r --to=", "--to DIR is missing"),
        ("--run r --to m --dtype int4", "dtype: expected one of float32, bfloat16, int8"),
        ("--run r --to m --format onnx", "expected one of saved_model, ctranslate2, marian-hf"),
        ("--run r --to m --dtype float16", "float32, bfloat16 or int8 for --format saved_model"),
        (
            "--run r --to m --format marian-hf --dtype int8",
            "float32 or float16 for --format marian",
        ),
        ("--run r --to m --version 0", "version: expected 1 to 9223372036854775807, got 0"),
        (
            "--run r --to m --version 9223372036854775808",
            "version: expected 1 to 9223372036854775807, got 9223372036854775808",
        ),
        ("--run r --to m --search.beam 0", "search.beam: expected 1 to 1000, got 0"),
        ("--run r --to m --max_tokens 1e9", "max_tokens: expected 2 to 100000, got 1000000000"),
        ("--run r --to m --max_bleu_loss nan", "max_bleu_loss: expected 0 to 1000, got nan"),
        ("--run r --to m --version 012", "version: expected a whole number, got '012'"),
        ("--run r --to m --beam 4", "did you mean --search.beam"),
        ("--run r --to m --model.d_model 4", "unknown option --model.d_model"),
    ],
)
def test_mistakes_end_with_status_2(exported, capsys, argv, message) -> None:
    assert export.main(argv.split()) == 2
    assert message in capsys.readouterr().err
    assert not exported


def test_ctranslate2(exported) -> None:
    pytest.importorskip("ctranslate2")
    options = ["--run", "r", "--to", "m", "--format", "ctranslate2", "--dtype", "int8"]
    assert export.main(options) == 0
    ((_, directory, settings),) = exported
    assert directory == Path("m")
    assert (settings.format, settings.dtype) == ("ctranslate2", "int8")


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("ctranslate2", ["--format", "ctranslate2"], "ctranslate2"),
        ("tensorflow_serving", [], "serve"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    exported, monkeypatch, capsys, tmp_path, module, words, extra
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    assert export.main(["--run", "r", "--to", str(tmp_path / "m"), *words]) == 2
    message = f'{module} is not: pip install "keras-translate[{extra}]"'
    assert message in capsys.readouterr().err
    assert not exported


def test_no_run_there(tmp_path, capsys) -> None:
    assert export.main(["--run", str(tmp_path), "--to", str(tmp_path / "m")]) == 2
    assert "expected a run folder with config.yaml, found none" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("name", ["my model", "a:b", "a?b"])
def test_a_name_that_cannot_be_served_is_refused(tmp_path, capsys, monkeypatch, name) -> None:
    monkeypatch.setattr(export, "import_tensorflow", lambda: pytest.fail("started"))
    assert export.main(["--run", str(tmp_path / "r"), "--to", str(tmp_path / name)]) == 2
    assert "the folder's name is the model's; expected a name without" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_ctranslate2_model_may_have_any_name(exported, tmp_path) -> None:
    pytest.importorskip("ctranslate2")
    words = ["--run", "r", "--to", str(tmp_path / "my model"), "--format", "ctranslate2"]
    assert export.main(words) == 0


def test_paths_are_checked_before_tensorflow_starts(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(export, "import_tensorflow", lambda: pytest.fail("started"))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text("data: {source: en, target: de}\n")
    assert export.main(["--run", str(folder), "--to", str(tmp_path / "m")]) == 2
    assert "no best.weights.h5 yet" in capsys.readouterr().err
    (folder / "best.weights.h5").touch()
    (tmp_path / "file").touch()
    assert export.main(["--run", str(folder), "--to", str(tmp_path / "file")]) == 2
    assert "expected a folder, found something else there" in capsys.readouterr().err
    (tmp_path / "m" / "3").mkdir(parents=True)
    words = ["--run", str(folder), "--to", str(tmp_path / "m"), "--version", "3"]
    assert export.main(words) == 2
    assert "3 is there already and is not overwritten" in capsys.readouterr().err


def test_help_names_every_signature_and_option(capsys) -> None:
    with pytest.raises(SystemExit) as left:
        export.main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for word in ("translate", "nbest", "options", "score", "align", "serving_default"):
        assert re.search(rf"^  .*\b{word}\b", text, re.MULTILINE)
    assert 'section 6.1 of "Attention Is All You Need"' in text
    for option in (
        "--format",
        "--dtype",
        "--max_tokens",
        "--version",
        "--search.beam",
        "--search.max_extra",
    ):
        assert option in text
