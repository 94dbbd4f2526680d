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
