"""Measured figures in docs/conversion.md.

  python -m tools.conversion_table

``benchmarks/conversion.py --json docs/conversion.json`` measures the proof,
``benchmarks/converted.py walks speed --json docs/converted.json`` the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools import generated_blocks

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "conversion.json"
CONVERTED = ROOT / "docs" / "converted.json"
DOCUMENT = ROOT / "docs" / "conversion.md"
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


def walks(figures: dict[str, Any]) -> str:
    """Return the times of the walks as Markdown; see ``benchmarks/converted.py``."""
    rows, walk = [], ""
    for row in figures["walks"]:
        # The heading of a walk stands in its first row only.
        first = row["walk"] if row["walk"] != walk else ""
        walk = row["walk"]
        rows.append([first, _step(row["command"]), f"{row['seconds']:.0f}", f"{row['mib']:,.0f}"])
    return generated_blocks.table(["walk", "step", "seconds", "peak MiB"], rows)


def _step(command: str) -> str:
    """Return the entry point of a command, and the option that tells it from others."""
    if "curl" in command:
        return "`curl`"
    if "tf_c_session" in command:
        return "load, and one sentence, in TensorFlow's C++ runtime"
    found = re.search(r"keras_transformer\.(\w+)(?: (?!-)(\S+))?", command)
    if not found:
        return f"`{command}`"
    return f"`{' '.join(part for part in found.groups() if part)}`"


def speed(figures: dict[str, Any]) -> str:
    """Return size and speed as Markdown; see ``benchmarks/converted.py``.

    Ratios are the speed of this package's float32 and bfloat16 divided by that of the row.
    """
    rows = figures["speed"]["systems"]
    own = [row for row in rows if row["system"].startswith("ours")]
    body = []
    for row in rows:
        single, batch = row["batch_1"], row["batch_32"]
        body.append(
            [
                row["system"],
                f"{row['folder_mib']:,.0f}",
                f"{single['milliseconds_per_sentence']:.0f}",
                _ratios(
                    [
                        single["milliseconds_per_sentence"]
                        / one["batch_1"]["milliseconds_per_sentence"]
                        for one in own
                    ]
                ),
                f"{batch['tokens_per_second']:,.0f}",
                _ratios(
                    [
                        one["batch_32"]["tokens_per_second"] / batch["tokens_per_second"]
                        for one in own
                    ]
                ),
                f"{max(single['spread'], batch['spread']):.0%}",
                f"{batch['memory_peak']:,.0f}",
            ]
        )
    header = [
        *("", "MiB on disk", "one sentence, ms", "ours / theirs", "32 at a time, tokens/s"),
        *("ours / theirs", "spread", "peak MiB"),
    ]
    return generated_blocks.table(header, body)


def _ratios(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def main() -> None:
    """Write the blocks of the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = dict.fromkeys(generated_blocks.block_names(text), "")
    if FIGURES.is_file():
        blocks["proof"] = table(json.loads(FIGURES.read_text(encoding="utf-8")))
    if CONVERTED.is_file():
        figures = json.loads(CONVERTED.read_text(encoding="utf-8"))
        blocks |= {"walks": walks(figures), "speed": speed(figures)}
    DOCUMENT.write_text(generated_blocks.replace_blocks(text, blocks), encoding="utf-8")


if __name__ == "__main__":
    main()
