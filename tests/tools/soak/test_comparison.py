"""Differences between a disturbed run and its reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.soak.comparison import (
    array_differences,
    check_same_run,
    metric_differences,
    raise_differences,
    read_records,
    resumed_between,
)
from tools.soak.trials import TrialError

RECORD = {"step": 4, "seconds": 1.0, "train_loss": 2.0, "dev_loss": 3.0}


def test_times_and_speeds_do_not_count() -> None:
    ours = RECORD | {"seconds": 9.0, "target_tokens_per_second": 5}
    assert metric_differences([ours], [RECORD], set()) == []


def test_the_smallest_difference_of_a_score_counts() -> None:
    ours = RECORD | {"dev_loss": float(np.nextafter(3.0, 4.0))}
    (found,) = metric_differences([ours], [RECORD], set())
    assert found == "metrics.jsonl, step 4, dev_loss: 3.0000000000000004, expected 3.0"


@pytest.mark.parametrize("change", [{"train_loss": 2.5}, {"train_loss": None}])
def test_means_of_a_divided_interval_do_not_count(change: dict[str, float]) -> None:
    ours = RECORD | change
    assert metric_differences([ours], [RECORD], {4}) == []
    assert len(metric_differences([ours], [RECORD], {8})) == 1


def test_scores_of_a_divided_interval_count() -> None:
    assert metric_differences([RECORD | {"dev_loss": 1.0}], [RECORD], {4})


def test_a_missing_field_and_a_surplus_field_count() -> None:
    without = {name: value for name, value in RECORD.items() if name != "dev_loss"}
    assert metric_differences([without], [RECORD], set())
    assert metric_differences([RECORD], [without], set())


def test_a_missing_record_counts() -> None:
    (found,) = metric_differences([RECORD], [RECORD, RECORD | {"step": 8}], set())
    assert found == "steps in metrics.jsonl: 4, expected 4, 8"


def test_a_repeated_record_counts() -> None:
    assert metric_differences([RECORD, RECORD], [RECORD], set())


def test_a_damaged_line_of_metrics_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 4}\n{"st')
    with pytest.raises(TrialError, match="metrics.jsonl"):
        read_records(tmp_path / "metrics.jsonl")


def test_divided_intervals_end_at_the_next_regular_checkpoint() -> None:
    log = (
        "2026-01-01 00:00:00 resuming after step 6\n"
        "2026-01-01 00:00:00 resuming after step 8\n"
        "2026-01-01 00:00:00 stopped by SIGTERM; saved at step 12, continue with --resume\n"
        "2026-01-01 00:00:00 resuming after step 12\n"
    )
    # From 6 to 8; 8 was scored before the kill; 12 may have been scored after the resume.
    assert resumed_between(log, 4) == {8, 12}
    assert resumed_between("resuming after step 8\n", 4) == set()


def test_equal_arrays_are_equal_bit_by_bit() -> None:
    values = np.array([1.0, np.nan, -0.0])
    assert array_differences("x", {"a": values}, {"a": values.copy()}) == []


@pytest.mark.parametrize(
    "other",
    [
        np.array([1.0, 0.0], np.float32),  # equal, but not the same zero
        np.array([1.0, -0.0], np.float64),
        np.array([[1.0, -0.0]], np.float32),
        np.nextafter(np.array([1.0, -0.0], np.float32), np.float32(2)),
    ],
)
def test_any_other_bit_type_or_shape_counts(other: np.ndarray) -> None:
    expected = {"a": np.array([1.0, -0.0], np.float32)}
    assert len(array_differences("x", {"a": other}, expected)) == 1


def test_missing_and_surplus_arrays_count() -> None:
    one = {"a": np.zeros(1)}
    assert array_differences("x", {}, one) == ["names in x: none, expected a"]
    assert array_differences("x", one, {}) == ["names in x: a, expected none"]


def test_many_differences_are_counted() -> None:
    with pytest.raises(TrialError, match=r"^a; b; c; d; e; and 2 more$"):
        raise_differences(list("abcdefg"))
    raise_differences([])


def run(folder: Path) -> Path:
    folder.mkdir()
    (folder / "log.txt").write_text("2026-01-01 00:00:00 done: 4 steps\n")
    (folder / "metrics.jsonl").write_text('{"step": 4, "seconds": 1.0, "dev_loss": 3.0}\n')
    (folder / "dev.translations.txt").write_text("a b\n")
    return folder


def test_equal_runs_differ_in_times_and_log_only(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "ours"), run(tmp_path / "theirs")
    (ours / "log.txt").write_text("2026-01-01 00:00:00 resuming after step 4\n")
    (ours / "metrics.jsonl").write_text('{"step": 4, "seconds": 7.0, "dev_loss": 3.0}\n')
    check_same_run(ours, theirs, 4)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (".partial.0.config.yaml", "", "^left behind: .partial.0.config.yaml$"),
        ("metrics.jsonl", '{"step": 4, "dev_loss": 3.5}', "dev_loss: 3.5, expected 3.0"),
        ("dev.translations.txt", "a c\n", "^dev.translations.txt differs$"),
    ],
)
def test_any_other_difference_of_runs_counts(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    ours, theirs = run(tmp_path / "ours"), run(tmp_path / "theirs")
    (ours / name).write_text(text)
    with pytest.raises(TrialError, match=message):
        check_same_run(ours, theirs, 4)
