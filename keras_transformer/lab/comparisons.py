"""Panels that compare variants at the end of their runs: scores, lengths, beams, layers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from keras_transformer.lab.experiment import BASELINE
from keras_transformer.lab.panel import (
    COLORS,
    INK,
    MUTED,
    Panel,
    drawn,
    has_values,
    last_measurement,
    number,
    styles,
)
from keras_transformer.lab.results import Result
from keras_transformer.lab.summaries import ExperimentSummary, VariantSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def grid(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield BLEU for each learning rate, order of normalization and warm-up."""
    yield Panel(
        "BLEU by rate, order and warm-up", lambda axes: _draw_grid(axes, summary), wide=True
    )


def _draw_grid(axes: Axes, summary: ExperimentSummary) -> None:
    """Draw BLEU as colour and number; rows are order and warm-up, columns rates."""
    cells: dict[tuple[str, str], VariantSummary] = {}
    for row in summary.rows.values():
        order, rate, warmup = (row.name if row.name != BASELINE else _BASELINE_CELL).split(", ")
        # The deep grid has a variant of that name, and the baseline is not one of its cells.
        if row.name != BASELINE or _BASELINE_CELL not in summary.rows:
            cells[f"{order}, {warmup}", rate] = row
    lines, columns = (list(dict.fromkeys(each[side] for each in cells)) for side in (0, 1))
    columns.sort(key=["¼ rate", "½ rate", "rate"].index)
    lines.sort()
    values = [
        [number(cells[line, column].mean("final", "bleu")) for column in columns] for line in lines
    ]
    best = max((value for row in values for value in row if math.isfinite(value)), default=1.0)
    axes.imshow(values, cmap="cividis", vmin=0, vmax=max(best, 1.0), aspect="auto", alpha=0.9)
    for y, line in enumerate(lines):
        for x, column in enumerate(columns):
            row = cells[line, column]
            value = values[y][x]
            text = "not run" if not row.results else f"{value:.1f}"
            if row.failed:
                text = row.outcome().replace(" at step", "\nat step").split(" (")[0]
            dark = math.isfinite(value) and value < 0.55 * best
            color = INK if not math.isfinite(value) else "white" if dark else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=9, color=color)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(lines)), lines)
    axes.grid(visible=False)


_BASELINE_CELL = "Pre-LN, rate, warm-up"
"""Name of the baseline in the grid of shallow networks."""


def lengths(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield BLEU and length ratio by source length."""
    for name, title in (
        ("bleu", "BLEU by source tokens"),
        ("length_ratio", "Length of output to reference, by source tokens"),
    ):
        yield Panel(title, lambda axes, name=name: _draw_lengths(axes, summary, name))  # type: ignore[misc]


def _draw_lengths(axes: Axes, summary: ExperimentSummary, name: str) -> None:
    line_styles = styles(summary)
    for row in reversed(list(summary.rows.values())):
        by_length: dict[int, list[float]] = {}
        for final in row.values("final"):
            for bucket in final["by_length"]:  # type: ignore[index]
                by_length.setdefault(bucket["longest"], []).append(bucket[name])
        if by_length:
            points = [(longest, statistics.fmean(found)) for longest, found in by_length.items()]
            axes.plot(
                *zip(*sorted(points), strict=True),
                marker="o",
                markersize=3,
                **line_styles[row.name].line,
            )
    axes.set_xlabel("longest source of the bucket, tokens")
    if name == "length_ratio":
        axes.axhline(1.0, color=MUTED, linewidth=0.8)


def searches(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield BLEU and length ratio by beam."""
    for name, title in (
        ("bleu", "BLEU by beam"),
        ("length_ratio", "Length of output to reference, by beam"),
    ):
        yield Panel(title, lambda axes, name=name: _draw_search(axes, summary, name))  # type: ignore[misc]


def _draw_search(axes: Axes, summary: ExperimentSummary, name: str) -> None:
    lines: dict[str, list[tuple[int, float]]] = {"α = 0.6": [], "α = 0": []}
    for row in summary.rows.values():
        value = row.mean("final", name)
        if value is not None:
            beam_name, *alpha = row.name.split(", ")
            beam = 4 if row.name == BASELINE else int(beam_name.split()[1])
            lines["α = 0" if alpha else "α = 0.6"].append((beam, value))
    for (label, points), color, mark in zip(lines.items(), COLORS, "os", strict=False):
        if points:
            axes.plot(
                *zip(*sorted(points), strict=True), color=color, marker=mark, ms=4, label=label
            )
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64, 100], ["1", "2", "4", "8", "16", "32", "64", "100"])
    axes.minorticks_off()
    axes.set_xlabel("beam width")
    axes.legend(frameon=False, labelcolor=INK)


def scores(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield the BLEU of each variant and seed."""
    yield Panel("BLEU of each variant", lambda axes: _draw_scores(axes, summary), wide=True)


def _draw_scores(axes: Axes, summary: ExperimentSummary) -> None:
    rows = [row for row in summary.rows.values() if row.values("final", "bleu")]
    for y, row in enumerate(reversed(rows)):
        values = row.values("final", "bleu")
        axes.plot(values, [y] * len(values), "o", color=COLORS[0], alpha=0.5, markersize=4)
        axes.plot(statistics.fmean(values), y, "|", color=COLORS[1], ms=12, mew=2)
    baseline = summary.rows[BASELINE].mean("final", "bleu")
    if baseline is not None:
        axes.axvline(baseline, color=INK, linestyle=(0, (3, 1.5)), linewidth=1)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)])
    axes.set_xlabel("BLEU; dashed: baseline")


def reliability(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield the accuracy of the best token by its probability."""
    if has_values(summary, ("calibration_error",)):
        yield Panel("Accuracy by confidence", lambda axes: _draw_reliability(axes, summary))


def _draw_reliability(axes: Axes, summary: ExperimentSummary) -> None:
    line_styles = styles(summary)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
    for row in reversed(drawn(summary)):
        points: dict[int, list[tuple[float, float]]] = {}
        for result in row.results:
            bins = last_measurement(result).get("reliability") or {}
            pairs = zip(bins.get("confidence", []), bins.get("accuracy", []), strict=True)
            for index, (confidence, accuracy) in enumerate(pairs):
                if confidence is not None and accuracy is not None:
                    points.setdefault(index, []).append((confidence, accuracy))
        line = [tuple(map(statistics.fmean, zip(*found, strict=True))) for found in points.values()]
        if line:
            axes.plot(
                *zip(*sorted(line), strict=True),
                marker="o",
                markersize=3,
                **line_styles[row.name].line,
            )
    axes.set_xlabel("probability of the best token")


def ranks(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield the rank distance after each encoder layer; see `layer_measurements`."""
    yield from _over_layers(
        summary, "rank_distance", "‖X − mean row‖ / ‖X‖ by encoder layer, end of run"
    )


def activations(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield the norm of the activations after each layer."""
    yield from _over_layers(summary, "activation_norm", "Activation norm by layer, end of run")


def _over_layers(summary: ExperimentSummary, name: str, title: str) -> Iterator[Panel]:
    rows = [row for row in drawn(summary) if any(map(_layer_values(name), row.results))]
    if rows:
        yield Panel(title, lambda axes: _draw_over_layers(axes, summary, rows, name))


def _layer_values(name: str) -> Callable[[Result], list[float]]:
    def read(result: Result) -> list[float]:
        value = last_measurement(result).get(name) or []
        return [number(each) for each in (value.values() if isinstance(value, dict) else value)]

    return read


def _draw_over_layers(
    axes: Axes, summary: ExperimentSummary, rows: Sequence[VariantSummary], name: str
) -> None:
    line_styles = styles(summary)
    for row in reversed(rows):
        series = [each for each in map(_layer_values(name), row.results) if each]
        values = [statistics.fmean(column) for column in zip(*series, strict=False)]
        axes.plot(
            range(len(values)), values, marker="o", markersize=3, **line_styles[row.name].line
        )
    axes.set_xlabel("layer, 0: embeddings")
    if name == "activation_norm":
        axes.set_yscale("log")
