"""Plot of a list of reports of ``train.py``: ``python plot_training.py FILE``."""

from __future__ import annotations

import json
import sys

import matplotlib.pyplot as plt


def main() -> None:
    """Draw tokens per second of each contestant, one picture per model."""
    reports = json.load(sys.stdin)
    figure, pictures = plt.subplots(1, len(reports), figsize=(4 * len(reports), 3.4), squeeze=False)
    for report, axes in zip(reports, pictures[0], strict=True):
        names = [row["contestant"].replace(", ", "\n") for row in report["rows"]]
        speeds = [row["tokens_per_second"] for row in report["rows"]]
        colours = ["tab:grey" if name.startswith("OpenNMT") else "tab:blue" for name in names]
        axes.bar_label(axes.bar(names, speeds, color=colours), fmt="{:,.0f}")
        axes.set(title=report["model"], ylabel="tokens per second")
        axes.margins(y=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(sys.argv[1], dpi=120)


if __name__ == "__main__":
    main()
