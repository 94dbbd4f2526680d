"""The command line: lists, the baseline with the user's changes, contradictions."""

from __future__ import annotations

from pathlib import Path

import pytest

from keras_transformer.cli.options import build_parser, load_config
from keras_transformer.config import SECTIONS
from keras_transformer.lab import __main__ as command
from keras_transformer.lab import record
from keras_transformer.lab.experiments import TABLE
from keras_transformer.lab.jobs import Corpus, make_jobs
from keras_transformer.lab.options import LabSettings, add_options, lab_settings


def read(*words: str) -> LabSettings:
    parser = build_parser("lab", "", list(SECTIONS))
    add_options(parser)
    return lab_settings(load_config(parser, words))


def test_the_list_names_each_experiment_with_its_variants(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--list"]) == 0
    text = capsys.readouterr().out
    for name, experiment in TABLE.by_name.items():
        assert f"{name}: {experiment.title}\n" in text
        assert all(variant.name in text for variant in experiment.variants)


def test_short_options_and_fields_change_the_baseline() -> None:
    settings = read(
        *("heads", "beam", "heads", "--steps", "70", "--data", "D/train", "--dev", "D/val"),
        *("--source", "en", "--target", "de", "--model.d_ff", "64", "--seeds", "2"),
    )
    assert [each.name for each in settings.experiments] == ["heads", "beam"]
    config = settings.baseline
    assert (config.train.max_steps, config.model.d_ff, settings.seeds) == (70, 64, 2)
    data = config.data
    assert (data.train, data.dev, data.source, data.target) == ("D/train", "D/val", "en", "de")
    assert config.data.vocabulary_size == read().baseline.data.vocabulary_size
    assert len(read().experiments) == len(TABLE.experiments)
    assert str(settings.results) == "lab/results"


def test_minutes_replace_steps() -> None:
    train = read("--minutes", "0.5").baseline.train
    assert train.max_minutes == 0.5
    assert train.max_steps > 1_000_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["head"], "unknown experiment head; did you mean heads?"),
        (["--steps", "5", "--minutes", "1"], "expected --steps or --minutes, not both"),
        (["--minutes", "-1"], "--minutes: expected 0.01 to"),
        (["--data", "a", "--data.train", "b"], "data.train: given twice"),
        (["--model.d_models", "5"], "unknown option"),
    ],
)
def test_mistakes_end_with_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert command.main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "unknown experiment nonsense (--list lists them)"),
        (["heads", "--to", "builtin:phrasebook"], "choose another --to"),
    ],
)
def test_mistakes_leave_nothing(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_every_experiment_has_variants_with_minutes() -> None:
    wanted = read("--minutes", "0.05")
    assert wanted.baseline.train.max_minutes == 0.05
    corpus = Corpus("a", "b")
    assert {
        each.config.train.max_minutes
        for each in make_jobs(wanted.experiments, wanted.baseline, 1, corpus)
    } == {0.05}


def test_a_report_without_results_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lab"
    assert command.main(["--report", "--to", str(folder)]) == 2
    record.write(folder / "results", read().baseline, Corpus("a", "b"))
    assert command.main(["--report", "--to", str(folder)]) == 2
    message = f"{folder}/results: expected results of a laboratory, found none yet\n"
    assert capsys.readouterr().err == 2 * f"keras_transformer.lab: error: {message}"
    assert [each.name for each in folder.iterdir()] == ["results"]
