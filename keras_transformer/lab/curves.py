"""Panels of curves over target tokens: loss, BLEU, gradient norm, attention entropy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.lab.panel import (
    Panel,
    drawn,
    has_values,
    last_measurement,
    number,
    styles,
    value_at,
)
from keras_transformer.lab.results import Result
from keras_transformer.lab.summaries import ExperimentSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curves(summary: ExperimentSummary) -> Iterator[Panel]:
    """Yield loss, BLEU, gradient norm and attention entropy over target tokens."""
    unit = "character" if summary.experiment.per_character else "token"
    if len(drawn(summary)) < 2:
        return
    yield Panel(f"Dev loss, nats a {unit}", lambda axes: _draw_loss(axes, summary))
    yield Panel(
        "Dev BLEU, greedy search", lambda axes: _draw_curves(axes, summary, "curve", "bleu")
    )
    layers = _layers(summary)
    for name, title in zip(layers, ("first encoder layer", "last decoder layer"), strict=False):
        yield _measurement_panel(
            summary, f"Gradient norm, {title}", ("gradient_norm", name), log=True
        )
    if layers:
        yield Panel(
            "Gradient norm by layer, end of run", lambda axes: _draw_gradient_norms(axes, summary)
        )
    for part in ("encoder", "decoder", "cross"):
        path = ("relative_attention_entropy", part)
        if has_values(summary, path):
            name = "cross-attention" if part == "cross" else f"{part} self-attention"
            yield _measurement_panel(summary, f"Entropy of {name}, share of ln n", path)


def _draw_loss(axes: Axes, summary: ExperimentSummary) -> None:
    _draw_curves(axes, summary, "curve", "nll")
    lines = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    values = [float(y) for ys in lines for y in ys if math.isfinite(y)]
    if values:  # a diverging run must not flatten the others
        low = min(values)
        axes.set_ylim(low - 0.1, min(max(values), low + 6) + 0.1)


def _measurement_panel(
    summary: ExperimentSummary, title: str, path: tuple[str, ...], log: bool = False
) -> Panel:
    def draw(axes: Axes) -> None:
        _draw_curves(axes, summary, "measurements", *path)
        if log and axes.lines:
            axes.set_yscale("log")

    return Panel(title, draw)


def _layers(summary: ExperimentSummary) -> list[str]:
    """Return the first encoder layer and the last decoder layer of the baseline."""
    for row in drawn(summary):
        for result in row.results:
            points = result.get("measurements") or [{}]
            names = list(points[0].get("gradient_norm") or {})
            encoder, decoder = (
                [name for name in names if name.startswith(f"{part}_") and name[-1].isdigit()]
                for part in ("encoder", "decoder")
            )
            if encoder and decoder:
                return [encoder[0], decoder[-1]]
    return []


def _draw_curves(axes: Axes, summary: ExperimentSummary, curve: str, *path: str) -> None:
    """Draw each seed as a thin line and their mean as a thick one, over tokens or characters."""
    line_styles = styles(summary)
    for row in reversed(drawn(summary)):  # the baseline above the others
        style = line_styles[row.name]
        seeds = [_series(summary, result, curve, path) for result in row.results]
        seeds = [each for each in seeds if each]
        if len(seeds) > 1:
            for each in seeds:
                axes.plot(*zip(*each, strict=True), color=style.color, linewidth=0.6, alpha=0.45)
        mean = _mean(seeds)
        if mean:
            axes.plot(
                *zip(*mean, strict=True),
                **style.line,
                marker="." if len(mean) == 1 else None,
                label=row.name,
            )
        for result in row.results:
            if result["diverged_at"] and (series := _series(summary, result, curve, path)):
                axes.plot(*series[-1], "x", color=style.color, markersize=7, markeredgewidth=2)
    unit = "characters" if summary.experiment.per_character else "tokens"
    axes.set_xlabel(f"target {unit}, thousands")


def _series(
    summary: ExperimentSummary, result: Result, curve: str, path: Sequence[str]
) -> list[tuple[float, float]]:
    """Return one seed's points: thousands of target tokens, or characters, and the value.

    Points without a value are left out.
    """
    length = 1.0
    if summary.experiment.per_character:
        length = (result.get("final") or {}).get("characters_per_token", math.nan)
    found = []
    for point in result.get(curve) or []:
        value = value_at(point, path)
        if value is not None and path == ("nll",):
            value = summary.loss(result, value)
        if value is not None and math.isfinite(length):
            found.append((point["target_tokens"] * length / 1_000, float(value)))
    return found


def _mean(seeds: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Return the mean of the seeds at each point that all of them have."""
    if not seeds:
        return []
    return [
        (statistics.fmean(x for x, _ in points), statistics.fmean(y for _, y in points))
        for points in zip(*seeds, strict=False)
    ]


def _draw_gradient_norms(axes: Axes, summary: ExperimentSummary) -> None:
    line_styles = styles(summary)
    for row in reversed(drawn(summary)):
        points = [last_measurement(result) for result in row.results]
        found = [point["gradient_norm"] for point in points if point.get("gradient_norm")]
        if not found:
            continue
        names = [name for name in found[0] if name.startswith(("encoder", "decoder"))]
        names = [name for name in names if not name.endswith("_norm")]
        values = [statistics.fmean([number(each[name]) for each in found]) for name in names]
        depths = [layer / max(len(names) - 1, 1) for layer in range(len(names))]
        axes.plot(
            depths, values, marker="o", markersize=3, label=row.name, **line_styles[row.name].line
        )
    axes.set_yscale("log")
    axes.set_xticks([0, 1], ["first encoder\nlayer", "last decoder\nlayer"])
