"""Panels of curves against target tokens: loss, BLEU, gradient norms, attention entropy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.lab.panel import Panel, drawn, has_values, number, styles, value_at
from keras_transformer.lab.results import Result
from keras_transformer.lab.rows import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curves(sheet: Sheet) -> Iterator[Panel]:
    """Yield loss, BLEU, gradient norms and attention entropies against target tokens."""
    unit = "character" if sheet.experiment.per_character else "token"
    if len(drawn(sheet)) < 2:
        return
    yield Panel(f"Dev loss, nats a {unit}", lambda axes: _loss_curve(axes, sheet))
    yield Panel("Dev BLEU, greedy search", lambda axes: _lines(axes, sheet, "curve", "bleu"))
    layers = _layers(sheet)
    for name, title in zip(layers, ("first encoder layer", "last decoder layer"), strict=False):
        yield _measured(sheet, f"Gradient norm, {title}", ("gradient_norm", name), log=True)
    if layers:
        yield Panel("Gradient norm by layer, end of run", lambda axes: _by_layer(axes, sheet))
    for part in ("encoder", "decoder", "cross"):
        path = ("relative_attention_entropy", part)
        if has_values(sheet, path):
            name = "cross-attention" if part == "cross" else f"{part} self-attention"
            yield _measured(sheet, f"Entropy of {name}, share of ln n", path)


def _loss_curve(axes: Axes, sheet: Sheet) -> None:
    _lines(axes, sheet, "curve", "nll")
    lines = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    values = [float(y) for ys in lines for y in ys if math.isfinite(y)]
    if values:  # a diverging run must not flatten the others
        low = min(values)
        axes.set_ylim(low - 0.1, min(max(values), low + 6) + 0.1)


def _measured(sheet: Sheet, title: str, path: tuple[str, ...], log: bool = False) -> Panel:
    def draw(axes: Axes) -> None:
        _lines(axes, sheet, "measurements", *path)
        if log and axes.lines:
            axes.set_yscale("log")

    return Panel(title, draw)


def _layers(sheet: Sheet) -> list[str]:
    """Return the first encoder layer and the last decoder layer of the baseline."""
    for row in drawn(sheet):
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


def _lines(axes: Axes, sheet: Sheet, curve: str, *path: str) -> None:
    """Draw each seed thinly and the mean of all seeds, against target tokens or characters."""
    looks = styles(sheet)
    for row in reversed(drawn(sheet)):  # the baseline above the others
        look = looks[row.name]
        seeds = [_series(sheet, result, curve, path) for result in row.results]
        seeds = [each for each in seeds if each]
        if len(seeds) > 1:
            for each in seeds:
                axes.plot(*zip(*each, strict=True), color=look.color, linewidth=0.6, alpha=0.45)
        mean = _mean(seeds)
        if mean:
            axes.plot(
                *zip(*mean, strict=True),
                color=look.color,
                linestyle=look.dashes,
                linewidth=look.width,
                marker="." if len(mean) == 1 else None,
                label=row.name,
            )
        for result in row.results:
            if result["diverged_at"] and (series := _series(sheet, result, curve, path)):
                axes.plot(*series[-1], "x", color=look.color, markersize=7, markeredgewidth=2)
    unit = "characters" if sheet.experiment.per_character else "tokens"
    axes.set_xlabel(f"target {unit}, thousands")


def _series(
    sheet: Sheet, result: Result, curve: str, path: Sequence[str]
) -> list[tuple[float, float]]:
    """Return the points of one seed; a value that is not finite is left out."""
    length = 1.0
    if sheet.experiment.per_character:
        length = (result.get("final") or {}).get("characters_per_token", math.nan)
    found = []
    for point in result.get(curve) or []:
        value = value_at(point, path)
        if value is not None and path == ("nll",):
            value = sheet.loss(result, value)
        if value is not None and math.isfinite(length):
            found.append((point["target_tokens"] * length / 1_000, float(value)))
    return found


def _mean(seeds: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Return the mean of the seeds point by point, as far as all of them go."""
    if not seeds:
        return []
    return [
        (statistics.fmean(x for x, _ in points), statistics.fmean(y for _, y in points))
        for points in zip(*seeds, strict=False)
    ]


def _by_layer(axes: Axes, sheet: Sheet) -> None:
    looks = styles(sheet)
    for row in reversed(drawn(sheet)):
        norms = [(result.get("measurements") or [{}])[-1] for result in row.results]
        found = [point["gradient_norm"] for point in norms if point.get("gradient_norm")]
        if not found:
            continue
        names = [name for name in found[0] if name.startswith(("encoder", "decoder"))]
        names = [name for name in names if not name.endswith("_norm")]
        values = [statistics.fmean([number(each[name]) for each in found]) for name in names]
        look = looks[row.name]
        places = [place / max(len(names) - 1, 1) for place in range(len(names))]
        style = {"color": look.color, "linestyle": look.dashes, "linewidth": look.width}
        axes.plot(places, values, marker="o", markersize=3, label=row.name, **style)
    axes.set_yscale("log")
    axes.set_xticks([0, 1], ["first encoder\nlayer", "last decoder\nlayer"])
