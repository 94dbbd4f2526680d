"""The command: its options, files and messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from keras_transformer.visualize import __main__ as command
from keras_transformer.visualize import attention_view, comparison
from tests.visualize.fake_views import view


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return the command with made-up views in place of a model's."""
    monkeypatch.setattr(command, "load_translator", lambda options: None)
    monkeypatch.setattr(command, "_check_runs", lambda options: None)
    monkeypatch.setattr(attention_view, "attention", lambda *given, **options: view())
    return command.main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a sentence is missing"),
        (["--target", "x"], "a sentence is missing"),
        (["--model", "--compare", "x"], "--compare belongs to a sentence"),
        (["I", "love"], 'expected one sentence in quotes, such as "I love"'),
        ([" "], "sentence: expected text, got ' '"),
        (["a", "--target", ""], "target: expected text, got ''"),
        (["a", "--compare", "b", "--compare_run", "r"], "not both"),
        (["a", "--words", "b"], "--words belongs to --model"),
        (["a", "--top_k", "0"], "top_k"),
        (["a", "--format", "gif"], "format"),
        (["a"], "--run DIR is missing"),
        (["a", "--run", "none"], "none: expected a run folder"),
        (["a", "--run", "builtin:phrasebook", "--compare_run", "none"], "none: expected a run"),
        (["a", "--run", "builtin:phrasebook", "--to", "builtin:mine"], "choose another --to"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert command.main(words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(
    main: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")

    assert main(["a", "--to", str(tmp_path / "file")]) == 2
    assert "cannot be created" in capsys.readouterr().err
    assert (tmp_path / "file").read_text("utf-8") == "mine"


def test_a_sentence_may_begin_with_an_address(main: Callable[..., int], tmp_path: Path) -> None:
    words = ["https://example.org/ is here.", "--to", str(tmp_path), "--compare", "http://a b"]
    with mock.patch.object(comparison, "compare") as compare:
        compare.return_value.save.return_value = []
        assert main(words) == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused(
    main: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)

    assert main(["a", "--to", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_without_matplotlib_the_page_is_written(
    main: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "attention.html").write_text("old", encoding="utf-8")

    assert main(["a", "--to", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["attention.html"]
    assert "<title>Attention</title>" in (tmp_path / "attention.html").read_text("utf-8")
    assert "[plots]" in caplog.text
    assert main(["--model", "--to", str(tmp_path)]) == 2
    assert "--model: expected matplotlib to be installed" in capsys.readouterr().err


@pytest.mark.slow
def test_files_of_a_sentence_and_of_a_comparison(
    main: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    one, two = tmp_path / "one", tmp_path / "two"

    assert main(["a", "--to", str(one)]) == 0
    assert main(["a", "--compare", "b", "--to", str(two), "--format", "svg"]) == 0
    printed = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {path.name for path in printed if path.parent == one} == {
        *("attention.html", "cross.png", "encoder.png", "decoder.png"),
        *("heads.png", "rollout.png", "next_tokens.png"),
    }
    assert {path.name for path in printed if path.parent == two} == {
        *("comparison.html", "comparison_cross.svg"),
        *("comparison_encoder.svg", "comparison_decoder.svg"),
    }
    assert all(path.stat().st_size > 1000 for path in printed)


def test_a_recurrent_model_has_cross_attention_only(tmp_path: Path) -> None:
    import dataclasses

    only: Any = dataclasses.replace(view(), encoder=[], decoder=[])

    assert only.kinds == ["cross"]
    assert {each.kind for each in only.heads()} == {"cross"}
    assert '"encoder":{"rows"' not in only.page()


def test_the_help_shows_no_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Sentence of the source language, in quotes. options:" in text
