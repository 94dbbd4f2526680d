"""The parts of the training benchmark that compute, without training anything."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("train", "options", "report", "contestants"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import train

    return train


def test_figures_worked_out_by_hand(benchmark: Any) -> None:
    rounds = [
        {"tokens": 800, "positions": 1000, "seconds": 2.0, "worked": 3.0},
        {"tokens": 600, "positions": 800, "seconds": 1.0, "worked": 1.5},
        {"tokens": 1000, "positions": 1200, "seconds": 2.0, "worked": 4.0},
    ]
    found = benchmark.figures("one", rounds, steps=4)
    # Tokens a second: 400, 600, 500.
    assert found["tokens_per_second"] == 500
    assert found["spread"] == pytest.approx(200 / 500)
    assert found["milliseconds_per_step"] == 500  # 2 s for 4 steps
    assert found["tokens_per_step"] == 200  # 2,400 in 12 steps
    assert found["padding"] == pytest.approx(0.2)  # 600 of 3,000
    # 3750, 2500 and 4000 s a million.
    assert found["processor_seconds_per_million_tokens"] == pytest.approx(3750)


def test_the_table_compares_with_the_peer(benchmark: Any) -> None:
    def row(name: str, seconds: float) -> Any:
        rounds = [{"tokens": 900, "positions": 1000, "seconds": seconds, "worked": 1.0}]
        return benchmark.figures(name, rounds, steps=1) | {"memory": 1234.0}

    lines = benchmark.table([row("ours", 0.5), row("OpenNMT-tf, float32", 1.0)]).splitlines()
    assert lines[2].endswith("| 10.0% | 1111 | 1,234 | 2.00 |")
    assert lines[3].endswith("| 1.00 |")


def test_both_toolkits_read_the_same_subword_pieces(benchmark: Any, tmp_path: Path) -> None:
    class Store:
        def __len__(self) -> int:
            return 2

        def batch(self, indices: Any) -> dict[str, np.ndarray]:
            rows = list(indices)
            return {
                "source": np.array([[7, 8, 3], [9, 3, 0]])[rows],
                "labels": np.array([[1, 3, 0, 0], [4, 5, 6, 3]])[rows],
            }

    side = SimpleNamespace(size=10)
    prepared = SimpleNamespace(train=Store(), tokenizer=SimpleNamespace(source=side, target=side))
    benchmark.write_words(prepared, tmp_path / "words")
    read = {path.name: path.read_text().split("\n") for path in (tmp_path / "words").iterdir()}
    assert read["source"] == ["7 8", "9", ""]
    assert read["target"] == ["1", "4 5 6", ""]  # 1, unknown here, is unknown there too
    # With the word for unknown ones, which is added there, 10.
    assert read["vocabulary"] == ["<blank>", "<s>", "</s>", "4", "5", "6", "7", "8", "9", ""]
