"""Figures of the conversion proof in docs/conversion.md.

  python -m tools.conversion_table

``benchmarks/conversion.py --json docs/conversion.json`` measures them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools import generated_blocks

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "conversion.json"
DOCUMENT = ROOT / "docs" / "conversion.md"
BLOCK = "proof"
HEADER = [
    *("format", "model", "its own system", "tokens", "largest difference of one"),
    *("greedy", "equal, of them ties", "hypotheses, in both beams", "better, worse"),
    *("equal when served", "dev loss before, after"),
]
# Names by which the releases of a peer are known.
RELEASES = ("transformers", "pymarian", "OpenNMT-tf", "joeynmt", "fairseq-fixed", "ctranslate2")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures as Markdown.

    Args:
        rows: One for each model, in the order of the table.
    """
    return generated_blocks.table(HEADER, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> list[str]:
    versions = [f"{name} {row['versions'][name]}" for name in RELEASES if name in row["versions"]]
    first = [row["format"], row["variant"], ", ".join([row["peer"], *versions])]
    if "refused" in row:
        return [*first, "refused", *[""] * (len(HEADER) - len(first) - 1)]
    beams = [f"{row['hypotheses']}, {row['common']}", f"{row['better']}, {row['worse']}"]
    used = ["", ""]
    if "served" in row:
        before, after = row["dev_loss"]
        used = ["{equal} of {sentences}".format(**row["served"]), f"{before:.3f}, {after:.3f}"]
    return [
        *first,
        f"{row['tokens']:,}",
        f"{row['worst_token']:.1e}",
        str(row["sources"]),
        f"{row['equal_greedy'] + row['ties']}, {row['ties']}",
        *(beams if row["hypotheses"] else ["", ""]),
        *used,
    ]


def main() -> None:
    """Write the block of the document."""
    rows = json.loads(FIGURES.read_text(encoding="utf-8"))
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(
        generated_blocks.replace_blocks(text, {BLOCK: table(rows)}), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
