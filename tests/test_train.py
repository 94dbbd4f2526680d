"""Options of ``train`` and the call of the trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from keras_transformer import train
from keras_transformer.cli.options import build_parser, load_config
from keras_transformer.cli.training import add_options, run_folder
from keras_transformer.config import SECTIONS, to_dict
from keras_transformer.presets import preset


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ("", "runs/phrasebook"),
        ("--data.train builtin:phrasebook:train", "runs/phrasebook"),
        ("--run here", "here"),
        ("--run here --data.train text/train", "here"),
    ],
)
def test_run_folder(words: str, folder: str) -> None:
    parser = build_parser("train", "", list(SECTIONS))
    add_options(parser)
    assert run_folder(load_config(parser, words.split())) == Path(folder)


def _recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(
        "keras_transformer.training.trainer.train",
        lambda config, run, resume, **options: calls.append((config, run, resume, options)),
    )
    return calls


def test_train_passes_the_configuration_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _recorded(monkeypatch)
    assert train.main(["--train.max_steps", "3"]) == 0

    [(config, run, resume, options)] = calls
    assert config.train.max_steps == 3
    assert config.model == preset("demo").model
    assert (run, resume) == (Path("runs/phrasebook"), False)
    assert options == {"devices": "auto", "accept_changes": False}


def test_resume_starts_from_the_configuration_of_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = preset("small")
    text = yaml.safe_dump(to_dict(stored))
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    calls = _recorded(monkeypatch)
    words = ["--resume", "--run", str(tmp_path)]
    more = ["--train.max_steps", "30000", "--devices", "cpu:2", "--accept_changes"]
    assert train.main([*words, *more]) == 0

    [(config, run, resume, options)] = calls
    assert config.train.max_steps == 30_000
    assert (config.model, config.data) == (stored.model, stored.data)
    assert (run, resume) == (tmp_path, True)
    assert options == {"devices": "cpu:2", "accept_changes": True}
    assert train.main(["--resume", "--run", str(tmp_path / "none")]) == 2
    assert "none: expected a run folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--workers 0", "--workers: expected 1 to 1024, got 0"),
        ("--workers 2 --restarts -1", "--restarts: expected 0 to 1000, got -1"),
        ("--train.precision float16", "expected one of float32, bfloat16 (float16 would need a"),
    ],
)
def test_invalid_numbers_are_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(words.split()) == 2
    assert message in capsys.readouterr().err
