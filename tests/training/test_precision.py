"""Choice of the precision for the devices, and its record in the run folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from keras_transformer.run import Run
from keras_transformer.training import precision, trainer
from keras_transformer.training.precision import choose_precision, with_precision_of
from tests.training.helpers import Reversal, with_train


def test_only_auto_is_replaced_and_the_choice_is_said(
    reversal: Reversal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "best_precision", lambda gpus: ("float16", "Tesla T4"))
    lines: list[str] = []
    given = reversal(precision="bfloat16")
    assert choose_precision(given, lines.append) is given
    assert lines == []
    chosen = choose_precision(reversal(precision="auto"), lines.append)
    assert chosen == reversal(precision="float16")
    assert lines == ["train.precision auto: float16 (Tesla T4)"]


@pytest.mark.slow
def test_a_resumed_run_has_the_recorded_choice(trained: Run) -> None:
    asked = with_train(trained.config, precision="auto")
    assert with_precision_of(trained.path, asked) == trained.config
    other = with_train(trained.config, precision="bfloat16")
    assert with_precision_of(trained.path, other) is other


@pytest.mark.slow
def test_a_run_records_the_choice(
    reversal: Reversal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "best_precision", lambda gpus: ("float16", "a reason"))
    run = trainer.train(reversal(max_steps=2, precision="auto"), tmp_path / "run")
    assert Run.open(run.path).config.train.precision == "float16"
    log = (run.path / "log.txt").read_text(encoding="utf-8")
    assert "train.precision auto: float16 (a reason)" in log
    assert "; 1 CPU, float16" in log
    # Another device would choose otherwise; the run stays as it is.
    monkeypatch.setattr(precision, "best_precision", lambda gpus: ("bfloat16", "another"))
    asked = with_train(run.config, max_steps=4, precision="auto")
    resumed = trainer.train(asked, run.path, resume=True)
    assert resumed.config.train.precision == "float16"
