"""Options of ``train`` and the call of the trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from keras_transformer import train
from keras_transformer.cli import workers
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
    assert options == {"devices": "auto", "accept_changes": False, "init_from": None}


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
    assert options == {"devices": "cpu:2", "accept_changes": True, "init_from": None}
    assert train.main(["--resume", "--run", str(tmp_path / "none")]) == 2
    assert "none: expected a run folder" in capsys.readouterr().err


def test_fine_tuning_starts_from_the_configuration_of_the_other_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = _recorded(monkeypatch)
    words = ["--init_from", "builtin:phrasebook", "--run", str(tmp_path / "new")]
    corpus = ["--data.train", "text.tsv", "--data.dev", "dev.tsv"]
    assert train.main([*words, *corpus, "--train.max_steps", "7", "--model.dropout", "0.2"]) == 0

    [(config, run, resume, options)] = calls
    assert (config.train.max_steps, config.train.warmup_steps) == (7, 400)
    assert (config.model.d_model, config.model.source_vocabulary_size) == (128, 2500)
    assert (config.data.train, config.data.vocabulary_size) == ("text.tsv", 2500)
    assert config.model.dropout == 0.2
    assert (run, resume, options["init_from"]) == (tmp_path / "new", False, "builtin:phrasebook")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--run new --init_from none", "none: expected a run folder with config.yaml, found none"),
        ("--run new --init_from builtin:no", "or builtin:phrasebook, got 'builtin:no'"),
        ("--init_from builtin:phrasebook", "--run DIR is missing"),
        ("--run untrained --init_from untrained", "expected another run than the new one"),
        ("--run new --init_from untrained", "untrained: no best.weights.h5 yet"),
        ("--run new --init_from untrained --resume", "--init_from starts a new run; --resume"),
        (
            "--run new --init_from builtin:phrasebook --model.d_model 64 --preset tiny",
            "model.encoder_layers: expected 3, got 4; model.decoder_layers: expected 3, got 4; "
            "model.d_model: expected 128, got 64; data.vocabulary_size: expected 2500, got 10000",
        ),
        ("--run builtin:phrasebook --resume", "a built-in model cannot be changed"),
        ("--run builtin:phrasebook", "train it further with --init_from builtin:NAME"),
    ],
)
def test_runs_that_cannot_be_fine_tuned_are_refused(
    words: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "untrained").mkdir()
    text = yaml.safe_dump(to_dict(preset("demo")))
    (tmp_path / "untrained" / "config.yaml").write_text(text, encoding="utf-8")
    calls = _recorded(monkeypatch)
    assert train.main(words.split()) == 2
    assert message in capsys.readouterr().err
    assert calls == []


def test_restarted_workers_resume_the_run_that_they_started() -> None:
    words = ["--run", "r", "--init_from", "x", "--init_from=y", "--train.seed", "2"]
    assert workers._resuming(words) == ["--run", "r", "--train.seed", "2", "--resume"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--workers 0", "--workers: expected 1 to 1024, got 0"),
        ("--workers 2 --restarts -1", "--restarts: expected 0 to 1000, got -1"),
        ("--train.precision half", "expected one of float32, bfloat16, float16, auto"),
    ],
)
def test_invalid_numbers_are_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(words.split()) == 2
    assert message in capsys.readouterr().err


def test_each_worker_has_gpus_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[dict[str, str]] = []

    class Process:
        def __init__(self, words: object, env: dict[str, str], **options: object) -> None:
            started.append(env)

        def poll(self) -> int:
            return 0

        def terminate(self) -> None: ...

        def wait(self, seconds: float) -> None: ...

    monkeypatch.setattr(workers.subprocess, "Popen", Process)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert workers.launch([], 2, 0, tmp_path, ["0,1", "2,3"]) == 0
    assert workers.launch([], 2, 0, tmp_path) == 0
    visible = [env["CUDA_VISIBLE_DEVICES"] for env in started]
    assert visible == ["0,1", "2,3", "0,1,2,3", "0,1,2,3"]


def test_more_workers_than_gpus_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr("keras_transformer.cli.training.launch", lambda *rest: 7)
    words = ["--run", str(tmp_path / "run"), "--workers", "3"]
    assert train.main(words) == 2
    assert "--workers: expected at most one worker for each GPU, got 3" in capsys.readouterr().err
    with pytest.raises(SystemExit) as launched:
        train.main([*words, "--devices", "cpu"])
    assert launched.value.code == 7
