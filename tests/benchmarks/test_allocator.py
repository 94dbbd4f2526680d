"""The parts of the allocator benchmark that compute, without training anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "allocator", raising=False)
    import allocator

    return allocator


def test_shapes_change_within_the_budget(benchmark: Any) -> None:
    found = benchmark.shapes(9, 120)
    assert found[:3] == [(10, 12), (6, 20), (3, 32)]
    assert found[8] == found[0]
    assert benchmark.shapes(1, 5) == [(1, 12)]  # a sentence longer than the budget


def test_figures_worked_out_by_hand(benchmark: Any) -> None:
    rounds = [
        {"tokens_per_second": 100.0, "faults": 80, "kernel_seconds": 0.8, "peak_mib": 5.0},
        {"tokens_per_second": 300.0, "faults": 40, "kernel_seconds": 0.4, "peak_mib": 6.0},
        {"tokens_per_second": 250.0, "faults": 48, "kernel_seconds": 0.2, "peak_mib": 6.0},
    ]
    found = benchmark.figures(rounds, steps=8)
    assert found == {
        "tokens_per_second": 250.0,
        "faults_per_step": 6.0,  # 48 in 8 steps
        "kernel_ms_per_step": pytest.approx(50.0),
        "peak_mib": 6.0,
    }
    rows = [
        {"model": "tiny", "setting": "default", **found},
        {"model": "tiny", "setting": "tuned", **found | {"tokens_per_second": 500.0}},
    ]
    assert benchmark.table(rows).splitlines()[-1] == "| `tiny` | tuned | 500 | 2.00 | 6 | 50 | 6 |"
