from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from keras_transformer.training.progress import (
    Journal,
    TrainingError,
    check_finite,
    duration,
    perplexity,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.6, "0:01:00"), (3723, "1:02:03"), (360000, "100:00:00")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_perplexity() -> None:
    assert perplexity(0.0) == 1.0
    assert perplexity(math.log(8)) == pytest.approx(8)
    assert perplexity(1e6) == math.inf


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_bad_loss_names_the_step(loss: float) -> None:
    with pytest.raises(TrainingError, match=f"the loss is {loss} at step 12;"):
        check_finite(loss, 12)


def test_journal_keeps_lines_and_forgets_later_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal(tmp_path)
    journal.forget_after(3)  # nothing there yet
    journal.line("first")
    journal.line("第二")
    for step in (1, 2, 3):
        journal.record({"step": step})
    journal.forget_after(2)
    records = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(record)["step"] for record in records] == [1, 2]
    assert capsys.readouterr().err == "first\n第二\n"
    log = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 2)[2] for line in log] == ["first", "第二"]
