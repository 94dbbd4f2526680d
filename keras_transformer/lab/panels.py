"""Panels of an experiment's figures: curves against tokens, grids, scores, searches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keras_transformer.lab.experiment import BASELINE
from keras_transformer.lab.results import Result
from keras_transformer.lab.rows import Row, Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#123454"
"""Colour of text and axes, which the report replaces by that of its page."""
MUTED = "#123455"
"""Colour of grids, replaced likewise."""
# Okabe and Ito's palette without its yellow and black.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
MAX_LINES = 8
"""Most variants whose curves share a panel."""


@dataclass(frozen=True)
class Style:
    """Look of one variant in all panels."""

    color: str
    dashes: Any
    width: float = 1.6


@dataclass(frozen=True)
class Panel:
    """One picture."""

    title: str
    draw: Callable[[Axes], None]
    wide: bool = False


def styles(sheet: Sheet) -> dict[str, Style]:
    """Return the look of each variant; the baseline is the colour of the text, dashed."""
    found = {BASELINE: Style(INK, (0, (3, 1.5)), 1.8)}
    names = [name for name in sheet.rows if name != BASELINE]
    for number, name in enumerate(names):
        round_, index = divmod(number, len(_COLORS))
        found[name] = Style(_COLORS[index], _DASHES[round_ % len(_DASHES)])
    return found


def drawn(sheet: Sheet) -> list[Row]:
    """Return the rows whose curves are drawn: with results, at most MAX_LINES."""
    rows = [row for row in sheet.rows.values() if any("curve" in each for each in row.results)]
    return rows[:MAX_LINES]


def panels(sheet: Sheet) -> list[Panel]:
    """Return the panels of an experiment that have something to show."""
    found: list[Panel] = []
    if not any(row.results for row in sheet.rows.values()):
        return found
    for plot in sheet.experiment.plots:
        found += _MAKERS[plot](sheet)
    return found


def _curves(sheet: Sheet) -> Iterator[Panel]:
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
        if _has(sheet, path):
            name = "cross-attention" if part == "cross" else f"{part} self-attention"
            yield _measured(sheet, f"Entropy of {name}, share of ln n", path)


def _loss_curve(axes: Axes, sheet: Sheet) -> None:
    _lines(axes, sheet, "curve", "nll")
    values = [y for line in axes.lines for y in line.get_ydata() if math.isfinite(y)]
    if values:  # a diverging run must not flatten the others
        low = min(values)
        axes.set_ylim(low - 0.1, min(max(values), low + 6) + 0.1)


def _measured(sheet: Sheet, title: str, path: tuple[str, ...], log: bool = False) -> Panel:
    def draw(axes: Axes) -> None:
        _lines(axes, sheet, "measurements", *path)
        if log and any(len(line.get_ydata()) for line in axes.lines):
            axes.set_yscale("log")

    return Panel(title, draw)


def _layers(sheet: Sheet) -> list[str]:
    """Return the first encoder layer and the last decoder layer of the baseline."""
    for row in drawn(sheet):
        for result in row.results:
            points = result.get("measurements") or [{}]
            names = list(points[0].get("gradient_norm") or {})
            encoder = [name for name in names if name.startswith("encoder")]
            decoder = [name for name in names if name.startswith("decoder")]
            if encoder and decoder:
                return [encoder[0], decoder[-1]]
    return []


def _has(sheet: Sheet, path: Sequence[str]) -> bool:
    return any(
        _value(point, path) is not None
        for row in drawn(sheet)
        for result in row.results
        for point in result.get("measurements") or []
    )


def _value(point: Any, path: Sequence[str]) -> float | None:
    """Return the number at a path, the mean of a list of them, or None."""
    for name in path:
        point = point.get(name) if isinstance(point, dict) else None
    if isinstance(point, list):
        numbers = [each for each in point if each is not None]
        return statistics.fmean(numbers) if numbers else None
    return point


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
        value = _value(point, path)
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
        names = [name for name in found[0] if name != "embedding"]
        values = [statistics.fmean([_number(each.get(name)) for each in found]) for name in names]
        look = looks[row.name]
        places = [place / max(len(names) - 1, 1) for place in range(len(names))]
        style = {"color": look.color, "linestyle": look.dashes, "linewidth": look.width}
        axes.plot(places, values, marker="o", markersize=3, label=row.name, **style)
    axes.set_yscale("log")
    axes.set_xticks([0, 1], ["first encoder\nlayer", "last decoder\nlayer"])


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _grid(sheet: Sheet) -> Iterator[Panel]:
    yield Panel("BLEU by rate, order and warm-up", lambda axes: _draw_grid(axes, sheet), wide=True)


def _draw_grid(axes: Axes, sheet: Sheet) -> None:
    """Draw BLEU as colour and number; rows are order and warm-up, columns rates."""
    cells: dict[tuple[str, str], Row] = {}
    for row in sheet.rows.values():
        order, rate, warmup = (row.name if row.name != BASELINE else _WHOLE).split(", ")
        # In the deep grid the baseline is no cell: another variant has its name.
        if row.name != BASELINE or _WHOLE not in sheet.rows:
            cells[f"{order}, {warmup}", rate] = row
    lines, columns = (list(dict.fromkeys(each[side] for each in cells)) for side in (0, 1))
    columns.sort(key=["¼ rate", "½ rate", "rate"].index)
    lines.sort()
    values = [
        [_number(cells[line, column].mean("final", "bleu")) for column in columns] for line in lines
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


_WHOLE = "Pre-LN, rate, warm-up"
"""Cell of the baseline in the shallow grid."""


def _length(sheet: Sheet) -> Iterator[Panel]:
    for name, title in (
        ("bleu", "BLEU by source tokens"),
        ("length_ratio", "Length of output to reference, by source tokens"),
    ):
        yield Panel(title, lambda axes, name=name: _draw_lengths(axes, sheet, name))  # type: ignore[misc]


def _draw_lengths(axes: Axes, sheet: Sheet, name: str) -> None:
    looks = styles(sheet)
    for row in reversed(list(sheet.rows.values())):
        by_length: dict[int, list[float]] = {}
        for final in row.values("final"):
            for bucket in final["by_length"]:  # type: ignore[index]
                by_length.setdefault(bucket["longest"], []).append(bucket[name])
        if by_length:
            points = [(longest, statistics.fmean(found)) for longest, found in by_length.items()]
            look = looks[row.name]
            style = {"color": look.color, "linestyle": look.dashes, "linewidth": look.width}
            axes.plot(*zip(*sorted(points), strict=True), marker="o", markersize=3, **style)
    axes.set_xlabel("longest source of the bucket, tokens")
    if name == "length_ratio":
        axes.axhline(1.0, color=MUTED, linewidth=0.8)


def _search(sheet: Sheet) -> Iterator[Panel]:
    for name, title in (
        ("bleu", "BLEU by beam"),
        ("length_ratio", "Length of output to reference, by beam"),
    ):
        yield Panel(title, lambda axes, name=name: _draw_search(axes, sheet, name))  # type: ignore[misc]


def _draw_search(axes: Axes, sheet: Sheet, name: str) -> None:
    lines: dict[str, list[tuple[int, float]]] = {"α = 0.6": [], "α = 0": []}
    for row in sheet.rows.values():
        value = row.mean("final", name)
        if value is not None:
            words = row.name.split(", ")
            beam = 4 if row.name == BASELINE else int(words[0].split()[1])
            lines["α = 0" if len(words) > 1 else "α = 0.6"].append((beam, value))
    for (label, points), color, mark in zip(lines.items(), _COLORS, "os", strict=False):
        if points:
            axes.plot(
                *zip(*sorted(points), strict=True), color=color, marker=mark, ms=4, label=label
            )
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64, 100], ["1", "2", "4", "8", "16", "32", "64", "100"])
    axes.minorticks_off()
    axes.set_xlabel("beam width")
    axes.legend(frameon=False, labelcolor=INK)


def _scores(sheet: Sheet) -> Iterator[Panel]:
    yield Panel("BLEU of each variant", lambda axes: _draw_scores(axes, sheet), wide=True)


def _draw_scores(axes: Axes, sheet: Sheet) -> None:
    rows = [row for row in sheet.rows.values() if row.values("final", "bleu")]
    for place, row in enumerate(reversed(rows)):
        values = row.values("final", "bleu")
        axes.plot(values, [place] * len(values), "o", color=_COLORS[0], alpha=0.5, markersize=4)
        axes.plot(statistics.fmean(values), place, "|", color=_COLORS[1], ms=12, mew=2)
    baseline = sheet.rows[BASELINE].mean("final", "bleu")
    if baseline is not None:
        axes.axvline(baseline, color=INK, linestyle=(0, (3, 1.5)), linewidth=1)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)])
    axes.set_xlabel("BLEU; dashed: baseline")


def _reliability(sheet: Sheet) -> Iterator[Panel]:
    if _has(sheet, ("calibration_error",)):
        yield Panel("Accuracy by confidence", lambda axes: _draw_reliability(axes, sheet))


def _draw_reliability(axes: Axes, sheet: Sheet) -> None:
    looks = styles(sheet)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
    for row in reversed(drawn(sheet)):
        points: dict[int, list[tuple[float, float]]] = {}
        for result in row.results:
            bins = (result["measurements"] or [{}])[-1].get("reliability") or {}
            pairs = zip(bins.get("confidence", []), bins.get("accuracy", []), strict=True)
            for place, (confidence, accuracy) in enumerate(pairs):
                if confidence is not None and accuracy is not None:
                    points.setdefault(place, []).append((confidence, accuracy))
        line = [tuple(map(statistics.fmean, zip(*found, strict=True))) for found in points.values()]
        if line:
            look = looks[row.name]
            style = {"color": look.color, "linestyle": look.dashes, "linewidth": look.width}
            axes.plot(*zip(*sorted(line), strict=True), marker="o", markersize=3, **style)
    axes.set_xlabel("probability of the best token")


def _ranks(sheet: Sheet) -> Iterator[Panel]:
    yield from _depth(sheet, "rank_distance", "‖X − mean row‖ / ‖X‖ by encoder layer, end of run")


def _activations(sheet: Sheet) -> Iterator[Panel]:
    yield from _depth(sheet, "activation_norm", "Activation norm by layer, end of run")


def _depth(sheet: Sheet, name: str, title: str) -> Iterator[Panel]:
    rows = [row for row in drawn(sheet) if any(map(_last(name), row.results))]
    if rows:
        yield Panel(title, lambda axes: _draw_depth(axes, sheet, rows, name))


def _last(name: str) -> Callable[[Result], list[float]]:
    def read(result: Result) -> list[float]:
        value = (result.get("measurements") or [{}])[-1].get(name) or []
        return [_number(each) for each in (value.values() if isinstance(value, dict) else value)]

    return read


def _draw_depth(axes: Axes, sheet: Sheet, rows: Sequence[Row], name: str) -> None:
    looks = styles(sheet)
    for row in reversed(rows):
        series = [each for each in map(_last(name), row.results) if each]
        values = [statistics.fmean(column) for column in zip(*series, strict=False)]
        look = looks[row.name]
        style = {"color": look.color, "linestyle": look.dashes, "linewidth": look.width}
        axes.plot(range(len(values)), values, marker="o", markersize=3, **style)
    axes.set_xlabel("layer, 0: embeddings")
    if name == "activation_norm":
        axes.set_yscale("log")


_MAKERS: dict[str, Callable[[Sheet], Iterator[Panel]]] = {
    "curves": _curves,
    "grid": _grid,
    "length": _length,
    "search": _search,
    "scores": _scores,
    "reliability": _reliability,
    "ranks": _ranks,
    "activations": _activations,
}
