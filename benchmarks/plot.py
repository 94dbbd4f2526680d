"""Draws the report of ``decode.py --workload length`` that it reads: ``python plot.py FILE``."""

from __future__ import annotations

import json
import sys

import matplotlib.pyplot as plt


def main() -> None:
    """Milliseconds of each token, with the cache and without."""
    ((case, rows),) = json.load(sys.stdin)["results"].items()
    figure, axes = plt.subplots(figsize=(7, 4))
    for row in rows:
        label = "with the cache" if row["cache"] else "whole prefix in each step"
        axes.plot(range(1, len(row["milliseconds"]) + 1), row["milliseconds"], label=label)
    axes.set(xlabel="token of the translation", ylabel="milliseconds a step", title=case)
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(sys.argv[1], dpi=120)


if __name__ == "__main__":
    main()
