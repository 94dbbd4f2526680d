"""The report, its tables, and its place in the documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.soak.report import BEGIN, DOCUMENT, END, RESULTS, report, save, table, with_section
from tools.soak.trials import Result

KILLS = {"kills": ["time 0.5", "best 0.1 + 3 ms", "time 0.2 (worker)"]}
PASSED = Result("training-device-1", "training", "device", 3, 5, "", 20.0, KILLS)
FAILED = Result("training-device-2", "training", "device", 3, 4, "step 8 differs", 10.5)
SERVER = Result(
    "server-load-1",
    "server",
    "load",
    3,
    600,
    "",
    640.0,
    {
        "connections": 32,
        "seconds": 600,
        "outcomes": {"answered": 70000, "refused 503": 12},
        "p50 ms": 21.5,
        "p99 ms": 93.0,
        "memory at a fifth of the time, MB": 700.0,
        "memory at the end, MB": 710.0,
        "swaps": 19,
        "damaged versions": 19,
        "longest loading, s": 14.2,
    },
)


def test_kinds_are_counted_and_failures_named() -> None:
    values = report([PASSED, FAILED, SERVER], 3, 700.0)
    assert values["kinds"][0] == {
        "section": "training",
        "kind": "device",
        "trials": 2,
        "disturbances": 9,
        "failed": 1,
        "seconds": 30.5,
    }
    assert values["failures"] == [
        {"trial": "training-device-2", "seed": 3, "failure": "step 8 differs"}
    ]
    assert not values["passed"]
    assert report([PASSED, SERVER], 3, 700.0)["passed"]


def test_a_test_without_trials_has_not_passed() -> None:
    assert not report([], 3, 0.0)["passed"]


def test_the_table_has_a_row_for_each_kind_and_the_figures_of_the_server() -> None:
    lines = table(report([PASSED, FAILED, SERVER], 3, 700.0)).splitlines()
    assert "| training | device | 2 | 9 kills | 1 | 30 |" in lines
    assert "| server | load | 1 | 600 s of load | 0 | 640 |" in lines
    assert "| p99 ms | 93.0 |" in lines
    assert "Kills by moment: time 2, best 1." in lines
    assert "| requests | 70,000 answered, 12 refused 503 |" in lines
    assert lines[-1].startswith("Failed: training-device-2 (seed 3). Seed 3, ")


def test_the_section_is_replaced_and_the_rest_stays() -> None:
    document = f"# Before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n"
    once = with_section(document, report([PASSED], 3, 1.0))
    assert once.startswith("# Before\n")
    assert once.endswith("\n\nafter\n")
    assert "old" not in once
    assert "All trials passed." in once
    assert with_section(once, report([PASSED], 3, 1.0)) == once
    assert "Not run yet." in with_section(once, None)


def test_a_document_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the marks"):
        with_section(f"{BEGIN} no end", None)


def test_kept_results_update_the_document_beside_them(tmp_path: Path) -> None:
    document = tmp_path / "results.md"
    document.write_text(f"{BEGIN}{END}\n", encoding="utf-8")
    values = report([PASSED], 3, 1.0)
    save(values, tmp_path / "soak.json")
    assert json.loads((tmp_path / "soak.json").read_text(encoding="utf-8")) == values
    assert document.read_text(encoding="utf-8") == with_section(f"{BEGIN}{END}\n", values)


def test_the_document_shows_the_kept_results() -> None:
    values = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else None
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_section(text, values) == text, "run python -m tools.soak.report"
