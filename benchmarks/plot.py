"""Plots of the reports of ``decode.py --workload length`` and ``memory.py``:
``python plot.py FILE``."""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib.pyplot as plt


def length(results: dict[str, Any]) -> Any:
    """Draw milliseconds per token, with and without the cache."""
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
    """Draw the memory of attention by length and of whole steps, as far as measured."""
    drawings = {"attention": attention, "step": step}
    figure, axes = plt.subplots(1, len(results), figsize=(6 * len(results), 4), squeeze=False)
    for place, (workload, rows) in zip(axes[0], results.items(), strict=True):
        drawings[workload](place, rows)
        place.legend()
    return figure


def attention(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw MiB by length."""
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        points = [(row["length"], row["mib"]) for row in own]
        (line,) = axes.plot(*zip(*points, strict=True), marker="o", label=name)
        for row in own:
            if row["estimated"]:
                axes.plot(row["length"], row["mib"], "o", color="white", mec=line.get_color())
    lengths = sorted({row["length"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [str(value) for value in lengths])
    axes.set(
        xlabel="tokens of a sentence (hollow: estimated)",
        ylabel="MiB",
        title=f"one attention layer, {rows[0]['sentences']} sentences",
    )
    axes.grid(alpha=0.3)


def step(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw MiB of each way to train, grouped by batch shape."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    cases = list(dict.fromkeys((row["sentences"], row["length"]) for row in rows))
    width = 0.8 / len(cases)
    for number, (sentences, length) in enumerate(cases):
        own = [row for row in rows if (row["sentences"], row["length"]) == (sentences, length)]
        places = [names.index(row["name"]) + number * width for row in own]
        axes.bar(places, [row["mib"] for row in own], width, label=f"{sentences} x {length}")
    middle = 0.4 - width / 2
    labels = [name.replace(", ", ",\n") for name in names]
    axes.set_xticks([place + middle for place in range(len(names))], labels)
    axes.set(ylabel="MiB", title="a step of the base model, sentences x tokens")
    axes.grid(alpha=0.3, axis="y")


def main() -> None:
    """Read, draw, write."""
    report = json.load(sys.stdin)
    figure = {"length": length, "memory": memory}[report["workload"]](report["results"])
    figure.tight_layout()
    figure.savefig(sys.argv[1], dpi=120)


if __name__ == "__main__":
    main()
