"""Draws the report of ``decode.py --workload length`` or of ``memory.py`` that it reads:
``python plot.py FILE``."""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib.pyplot as plt


def length(results: dict[str, Any]) -> Any:
    """Milliseconds of each token, with the cache and without."""
    ((case, rows),) = results.items()
    figure, axes = plt.subplots(figsize=(7, 4))
    for row in rows:
        label = "with the cache" if row["cache"] else "whole prefix in each step"
        axes.plot(range(1, len(row["milliseconds"]) + 1), row["milliseconds"], label=label)
    axes.set(xlabel="token of the translation", ylabel="milliseconds a step", title=case)
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def memory(results: dict[str, Any]) -> Any:
    """Memory of attention by length, and of whole steps."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    rows = results["attention"]
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        points = [(row["length"], row["mib"]) for row in own]
        (line,) = left.plot(*zip(*points, strict=True), marker="o", label=name)
        for row in own:
            if row["estimated"]:
                left.plot(row["length"], row["mib"], "o", color="white", mec=line.get_color())
    lengths = sorted({row["length"] for row in rows})
    left.set_xscale("log", base=2)
    left.set_yscale("log")
    left.set_xticks(lengths, [str(value) for value in lengths])
    sentences = rows[0]["sentences"]
    left.set(
        xlabel="tokens of a sentence (hollow: estimated)",
        ylabel="MiB",
        title=f"one attention layer, {sentences} sentences",
    )
    left.grid(alpha=0.3)
    left.legend()

    rows = results["step"]
    names = list(dict.fromkeys(row["name"] for row in rows))
    cases = list(dict.fromkeys((row["sentences"], row["length"]) for row in rows))
    for number, case in enumerate(cases):
        own = [row["mib"] for row in rows if (row["sentences"], row["length"]) == case]
        places = [
            place + (number - (len(cases) - 1) / 2) * 0.8 / len(cases) for place in range(len(own))
        ]
        right.bar(places, own, 0.8 / len(cases), label=f"{case[0]} x {case[1]}")
    right.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
    right.set(ylabel="MiB", title="a step of the base model, sentences x tokens")
    right.grid(alpha=0.3, axis="y")
    right.legend()
    return figure


def main() -> None:
    """Read, draw, write."""
    report = json.load(sys.stdin)
    figure = {"length": length, "memory": memory}[report["workload"]](report["results"])
    figure.tight_layout()
    figure.savefig(sys.argv[1], dpi=120)


if __name__ == "__main__":
    main()
