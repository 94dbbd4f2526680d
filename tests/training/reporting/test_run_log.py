from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from keras_transformer.training.reporting.run_log import RunLog


def test_lines_are_kept_and_later_records_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_log = RunLog(tmp_path)
    assert run_log.truncate(3) == []  # nothing there yet
    run_log.line("first")
    run_log.line("第二")
    for step in (1, 2, 3):
        run_log.record({"step": step})
        run_log.record_steps({"step": step, "train_loss": 1 / 3})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write('{"step": 2, "x": "第'.encode()[:-1])  # as a kill leaves it
    assert run_log.truncate(2) == [{"step": 1}, {"step": 2}]
    records = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(record)["step"] for record in records] == [1, 2]
    assert run_log.steps() == [{"step": step, "train_loss": 0.3333333} for step in (1, 2)]
    assert capsys.readouterr().err == "first\n第二\n"
    log = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 2)[2] for line in log] == ["first", "第二"]


def test_a_record_is_json_even_where_a_number_is_infinite(tmp_path: Path) -> None:
    RunLog(tmp_path).record({"step": 1, "train_perplexity": math.inf, "train_loss": 2.5})
    text = (tmp_path / "metrics.jsonl").read_text()
    assert text == '{"step": 1, "train_perplexity": null, "train_loss": 2.5}\n'


def test_other_workers_than_the_chief_are_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunLog(tmp_path).record({"step": 3})
    run_log = RunLog(tmp_path, silent=True)
    run_log.line("first")
    run_log.record({"step": 4})
    assert run_log.truncate(2) == []
    assert RunLog(tmp_path).records() == [{"step": 3}]
    assert capsys.readouterr().err == ""
