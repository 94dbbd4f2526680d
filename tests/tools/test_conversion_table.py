"""Tests of the table in docs/conversion.md."""

from __future__ import annotations

from typing import Any

from tools import conversion_table

ROW: dict[str, Any] = {
    "format": "marian",
    "variant": "shared",
    "peer": "Marian",
    "versions": {"pymarian": "1.12.42", "python": "3.11.7"},
    "tokens": 12_345,
    "worst_token": 0.0000123,
    "sources": 500,
    "equal_greedy": 498,
    "ties": 2,
    "hypotheses": 400,
    "common": 390,
    "better": 3,
    "worse": 1,
    "served": {"sentences": 100, "equal": 99},
    "dev_loss": [3.25, 2.5],
}


def test_a_row_by_hand() -> None:
    last = conversion_table.table([ROW]).splitlines()[-1]
    assert last == (
        "| marian | shared | Marian, pymarian 1.12.42 | 12,345 | 1.2e-05 | 500 | 500, 2 "
        "| 400, 390 | 3, 1 | 99 of 100 | 3.250, 2.500 |"
    )


def test_a_refused_model_has_no_figures() -> None:
    keys = ("format", "variant", "peer", "versions")
    last = conversion_table.table([{key: ROW[key] for key in keys} | {"refused": "..."}])
    cells = last.splitlines()[-1].split("|")[4:-1]
    assert [cell.strip() for cell in cells] == ["refused", *[""] * 7]


def test_speed_by_hand() -> None:
    def system(name: str, milliseconds: float, tokens: float) -> dict[str, Any]:
        cases = {
            "batch_1": {"milliseconds_per_sentence": milliseconds, "spread": 0.02},
            "batch_32": {"tokens_per_second": tokens, "spread": 0.05, "memory_peak": 1500.0},
        }
        return {"system": name, "folder_mib": 290.4, **cases}

    rows = [system("ours, float32", 400.0, 300.0), system("Hugging Face, float32", 500.0, 100.0)]
    lines = conversion_table.speed({"speed": {"systems": rows}}).splitlines()[-2:]
    assert lines == [
        "| ours, float32 | 290 | 400 | 1.00 | 300 | 1.00 | 5% | 1,500 |",
        "| Hugging Face, float32 | 290 | 500 | 1.25 | 100 | 3.00 | 5% | 1,500 |",
    ]


def test_walks_by_hand() -> None:
    commands = [
        "python -m keras_transformer.convert opus --run runs/opus",
        'echo "A dog." | python -m keras_transformer.translate --run runs/opus',
        "curl -d '{}' localhost:8501/v1/models/opus:predict",
    ]
    rows = [{"walk": "Walk", "command": one, "seconds": 12.3, "mib": 800.0} for one in commands]
    assert conversion_table.walks({"walks": rows}).splitlines()[2:] == [
        "| Walk | `convert opus` | 12 | 800 |",
        "|  | `translate` | 12 | 800 |",
        "|  | `curl` | 12 | 800 |",
    ]
