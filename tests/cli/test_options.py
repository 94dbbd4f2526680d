"""Options: precedence, messages, help."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from keras_transformer.cli import options as cli_options
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, build_parser, load_config
from keras_transformer.config import SECTIONS, Config, ConfigError
from keras_transformer.environment import set_for_command
from keras_transformer.errors import UserError
from keras_transformer.presets import PRESETS, preset
from keras_transformer.system import FileError
from keras_transformer.validation import between

ENTRY_POINTS = ("train", "translate", "evaluate", "score")


def options(*argv: str, sections: Sequence[str] = tuple(SECTIONS)) -> Options:
    return load_config(build_parser("train", "", sections), argv)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "preset: tiny\nmodel: {d_ff: 300, dropout: 0.25}\ntrain:\n  adam_epsilon: 1e-9\n"
        "data: {train: corpus, source: 'no'}\nsearch: {beam: 6}\n",
        encoding="utf-8",
    )
    return path


# Precedence


def test_command_line_wins_over_file_over_preset_in_any_order(recipe: Path) -> None:
    words = ["--model.dropout", "0.5", "--config", str(recipe), "--search.alpha=1"]
    config = options(*words).config()

    assert config.model.dropout == 0.5  # command line
    assert config.search.alpha == 1.0
    assert config.model.d_ff == 300  # file
    assert (config.train.adam_epsilon, config.data.source) == (1e-9, "no")
    assert config.model.d_model == PRESETS["tiny"]["model"]["d_model"]  # preset
    assert config.model.max_positions == 1024  # default
    assert options(*words[2:], *words[:2]).config() == config


def test_preset_of_the_command_line_wins_over_that_of_the_file(recipe: Path) -> None:
    config = options("--preset", "big", "--config", str(recipe)).config()

    assert config.model.d_model == 1024
    assert config.model.d_ff == 300


def test_a_list_of_texts_is_json() -> None:
    words = ["--search.suppress", '[">>deu<<", "▁a b"]', "--search.max_factor=1.5"]
    search = options(*words).config().search
    assert (search.suppress, search.max_factor) == ((">>deu<<", "▁a b"), 1.5)
    assert options("--search.suppress=[]").config().search.suppress == ()
    for wrong in ("a", "[a]", '["a", 1]'):
        with pytest.raises(UserError, match=r"suppress: expected a list of texts such as"):
            options("--search.suppress", wrong)


def test_default_preset_depends_on_the_corpus() -> None:
    assert options().config() == preset("demo")
    assert options("--data.train", "builtin:phrasebook").config() == preset("demo")
    own = options("--data.train", "text/train", "--data.dev", "text/val").config()
    assert own.model == preset("tiny").model


def test_only_what_the_user_gave_changes_a_run(recipe: Path) -> None:
    stored = preset("small")

    assert options().config(stored) == stored
    assert options("--train.max_steps", "7").config(stored).train.max_steps == 7
    search = options("--config", str(recipe), sections=["search"]).config(stored)
    assert search.search.beam == 6
    assert (search.model, search.data) == (stored.model, stored.data)


def test_values_that_fit_only_together_are_checked_together(tmp_path: Path) -> None:
    path = tmp_path / "wide.yaml"
    path.write_text("model: {d_model: 100}\n", encoding="utf-8")

    assert options("--config", str(path), "--model.heads", "5").config().model.key_width == 20


def test_merged_goes_into_sections() -> None:
    first, second = {"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 4}, "b": 5, "c": {"z": 6}}

    assert cli_options.merged(first, second) == {"a": {"x": 1, "y": 4}, "b": 5, "c": {"z": 6}}
    assert first == {"a": {"x": 1, "y": 2}, "b": 3}


# Messages


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--model.d_modell 7", r"^unknown option --model\.d_modell; did you mean --model\.d_model"),
        ("--max_steps=7", r"^unknown option --max_steps; did you mean --train\.max_steps\?$"),
        ("--zzz", r"^unknown option --zzz \(--help lists them\)$"),
        ("stray", "^unexpected argument 'stray' "),
        ("--model.d_model wide", r"^model\.d_model: expected a whole number, got 'wide'$"),
        ("--train.max_steps 3.5", r"^train\.max_steps: expected a whole number, got '3\.5'$"),
        ("--model.dropout x", r"^model\.dropout: expected a number, got 'x'$"),
        ("--train.jit maybe", r"^train\.jit: expected true or false, got 'maybe'$"),
        ("--model.norm both", r"^model\.norm: expected one of post, pre, got 'both'$"),
        ("--train.seed null", r"^train\.seed: expected a whole number, got 'null'$"),
        ("--train.seed 012", r"^train\.seed: expected a whole number, got '012'$"),
        ("--train.max_minutes 1:30", r"^train\.max_minutes: expected a number, got '1:30'$"),
        ("--train.jit 1", r"^train\.jit: expected true or false, got '1'$"),
        ("--train={seed: 5}", r"^unknown option --train; did you mean --data\.train\?$"),
        ("--train.precision float64", r"^train\.precision: .*float16, auto, got 'float64'$"),
        ("--train.seed", r"^--train\.seed: expected one argument$"),
        ("--config nowhere.yaml", r"^config: there is no file nowhere\.yaml$"),
        ("--config .", r"^config: cannot read \.: Is a directory$"),
    ],
)
def test_a_mistyped_command_line_is_explained(words: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        options(*words.split())


def test_a_bad_file_is_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("preset: tiny\nmodel:\n  d_modl: 3\n", encoding="utf-8")

    with pytest.raises(UserError, match=r"bad\.yaml, line 3: unknown field model\.d_modl; did you"):
        options("--config", str(path))


def test_fields_that_a_command_does_not_read_are_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("model: {d_modl: 3}\n", encoding="utf-8")

    with pytest.raises(UserError, match=r"unknown field model\.d_modl"):
        options("--config", str(path), sections=["search"])
    with pytest.raises(UsageError, match="unknown option --model.d_model"):
        options("--model.d_model", "3", sections=["search"])


def test_unknown_preset_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="preset: expected one of demo.*, got 'huge'"):
        options("--preset", "huge").config()


def test_an_option_that_is_a_number_has_a_range() -> None:
    parser = build_parser("train", "", ["search"])
    cli_options.add_number(parser, "workers", between(1, 8), default=2, help="Workers.")

    assert load_config(parser, []).own.workers == 2
    assert load_config(parser, ["--workers", "1e0"]).own.workers == 1
    for text, message in (("9", "expected 1 to 8, got 9"), ("x", "a whole number, got 'x'")):
        with pytest.raises(UsageError, match=f"^--workers: .*{message}"):
            load_config(parser, ["--workers", text])


# Help


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_help_comes_at_once_and_without_tensorflow(name: str) -> None:
    start = time.perf_counter()
    # -X importtime names every module that is imported.
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", f"keras_transformer.{name}", "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )

    assert done.returncode == 0, done.stderr
    assert "tensorflow" not in done.stderr
    assert time.perf_counter() - start < 5  # measured 0.4 s; a busy machine is slower
    assert f"python -m keras_transformer.{name}" in done.stdout
    assert "--search.beam" in done.stdout
    assert "Hypotheses kept for each sentence; 1 is greedy search." in done.stdout


def test_help_documents_every_field_with_the_values_of_presets() -> None:
    text = " ".join(build_parser("train", "", list(SECTIONS)).format_help().split())

    for section in SECTIONS:
        for name in vars(getattr(Config(), section)):
            assert f"--{section}.{name} " in text
    assert (
        "Presets: demo 128, tiny 128, rnn 160, small 256, big 1024. (type: int, default: 512)"
        in text
    )
    assert "null" not in text


# Addresses


@pytest.mark.parametrize(
    ("name", "words", "option"),
    [
        ("train", "--run gs://b/run", "--run"),
        ("train", "--config s3://b/recipe.yaml", "--config"),
        ("train", "--run r --data.train gs://b/train", "data.train"),
        ("train", "--run r --data.train d --data.dev s3://b/dev.tsv", "data.dev"),
        ("translate", "--run r s3://b/text.en", "FILE"),
        ("translate", "--run r --output gs://b/text.de", "--output"),
        ("translate", "--run r --prefix gs://b/prefix", "--prefix"),
        ("translate", "--run r --attention gs://b/a.npz", "--attention"),
        ("evaluate", "--run r --source a --reference b gs://b/ref", "--reference"),
        ("evaluate", "--run r --data https://host/test.tsv", "--data"),
        ("evaluate", "--hypotheses gs://b/h --reference b", "--hypotheses"),
        ("score", "--run r --source a --target gs://b/t", "--target"),
        ("export", "--run r --to s3://b/models/en-de", "--to"),
        ("serve", "gs://b/models/en-de", "DIR"),
    ],
)
def test_an_address_is_refused_by_every_option(
    name: str, words: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert importlib.import_module(f"keras_transformer.{name}").main(words.split()) == 2
    [line] = capsys.readouterr().err.splitlines()
    prefix = f"keras_transformer.{name}: error: "
    assert line.startswith(f"{prefix}{option}: expected a path on this machine, got ")


def test_an_address_in_a_recipe_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("data: {train: 'gs://bucket/train'}\n")
    with pytest.raises(FileError, match="^data.train: expected a path on this machine"):
        options("--config", str(recipe)).config()


def test_no_variable_becomes_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSONARGPARSE_DEFAULT_ENV", "true")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    set_for_command()
    assert not build_parser("train", "", tuple(SECTIONS)).default_env
