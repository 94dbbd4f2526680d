"""Learning curves of a run; the tests of failures need no matplotlib."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.training.reporting import curves

RECORDS = [
    {
        "step": step,
        "seconds": 1.0 * step,
        "tokens_per_second": 9,
        "learning_rate": 0.1 / step,
        "train_loss": 9.0 / step,
        "train_perplexity": None if step == 2 else 20.0 / step,
        "dev_loss": 8.0 / step,
        "dev_perplexity": 30.0 / step,
        "dev_bleu": bleu,
    }
    for step, bleu in ((2, 1.0), (4, 7.0), (6, 3.0))
]
AVERAGE = {"step": 6, "averaged": 2, "dev_loss": 1.2, "dev_perplexity": 4.5, "dev_bleu": 6.0}


@pytest.fixture(autouse=True)
def drawn() -> None:
    """Draw curves, unlike in the other tests of training."""


def lines(axes: Any) -> dict[str, list[tuple[float, float]]]:
    return {
        line.get_label(): list(zip(*map(list, line.get_data()), strict=True))
        for line in axes.get_lines()
    }


def test_curves_of_the_checkpoints_alone() -> None:
    pytest.importorskip("matplotlib")
    figure = curves.figure([*RECORDS, AVERAGE], [], "bleu")
    loss, perplexity, bleu, rate = figure.axes
    assert lines(loss)["training"] == [(2, 4.5), (4, 2.25), (6, 1.5)]
    assert lines(loss)["dev"] == [(2, 4.0), (4, 2.0), (6, 8 / 6)]
    assert lines(loss)["average of 2 checkpoints"] == [(6, 1.2)]
    assert math.isnan(lines(perplexity)["training"][0][1])  # was infinite
    assert lines(bleu)["dev"] == [(2, 1.0), (4, 7.0), (6, 3.0)]
    assert {x for x, _ in lines(bleu)["best: step 4"]} == {4}
    assert len(rate.get_lines()) == 2


def test_the_ema_is_marked_with_its_name() -> None:
    pytest.importorskip("matplotlib")
    ema = AVERAGE | {"ema_decay": 0.9, "dev_loss": 1.1}
    del ema["averaged"]
    figure = curves.figure([*RECORDS, AVERAGE, ema], [], "bleu")
    assert lines(figure.axes[0])["EMA"] == [(6, 1.1)]


def test_the_best_is_that_of_the_configuration_and_may_be_an_average() -> None:
    pytest.importorskip("matplotlib")
    figure = curves.figure([*RECORDS, AVERAGE], [], "loss")
    assert {x for x, _ in lines(figure.axes[0])["best: average of 2 checkpoints at step 6"]} == {6}


def test_the_training_curve_uses_the_records_of_steps() -> None:
    pytest.importorskip("matplotlib")
    steps = [{"step": step, "train_loss": 9.0 - step} for step in range(1, 7)]
    figure = curves.figure(RECORDS, steps, "bleu")
    assert lines(figure.axes[0])["training"] == [(step, 9.0 - step) for step in range(1, 7)]


def test_a_run_without_bleu_or_records_is_drawn_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    log: list[str] = []
    without = [{k: v for k, v in record.items() if k != "dev_bleu"} for record in RECORDS]
    curves.write(tmp_path, without, [], "bleu", log.append)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    curves.write(tmp_path / "nowhere", [], [], "bleu", log.append)
    assert log == []


def test_a_failing_plot_does_not_stop_training(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    log: list[str] = []
    curves.write(tmp_path / "missing", RECORDS, [], "bleu", log.append)
    curves.write(tmp_path, [{"step": 1, "dev_loss": "much"}], [], "bleu", log.append)
    assert len(log) == 2
    assert all("curves.png: not drawn: " in line for line in log)


def test_without_matplotlib_a_line_names_the_command_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # importing it fails
    log: list[str] = []
    curves.write(tmp_path, RECORDS, [], "bleu", log.append)
    [line] = log
    assert line.startswith(f"{tmp_path / 'curves.png'}: not drawn")
    assert 'pip install "keras-translate[plots]"' in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError("'inline' is not a valid value"), AttributeError()])
def test_a_matplotlib_that_cannot_be_imported_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(name: str) -> Any:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    log: list[str] = []
    curves.write(tmp_path, RECORDS, [], "bleu", log.append)
    assert log == [f"{tmp_path / 'curves.png'}: not drawn: {str(error) or 'AttributeError'}"]
