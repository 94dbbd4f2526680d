"""Panels of figures, and the line style of each variant in them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keras_transformer.lab.experiment import BASELINE
from keras_transformer.lab.results import Result
from keras_transformer.lab.summaries import ExperimentSummary, VariantSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#123454"
"""Colour of text and axes; the report replaces it with the text colour of its page."""
MUTED = "#123455"
"""Colour of grids; replaced in the same way."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Okabe and Ito's palette without its yellow and black."""
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
MAX_LINES = 13
"""Most variants whose curves share a panel."""


@dataclass(frozen=True)
class Style:
    """Line style of one variant in all panels."""

    color: str
    dashes: Any
    width: float = 1.6

    @property
    def line(self) -> dict[str, Any]:
        """Arguments of ``Axes.plot``."""
        return {"color": self.color, "linestyle": self.dashes, "linewidth": self.width}


@dataclass(frozen=True)
class Panel:
    """One picture of a figure."""

    title: str
    draw: Callable[[Axes], None]
    """Draws into empty axes."""
    wide: bool = False
    """Whether the report gives it more width."""


def styles(summary: ExperimentSummary) -> dict[str, Style]:
    """Return the style of each variant by name; the baseline is dashed, in the colour of text."""
    found = {BASELINE: Style(INK, (0, (3, 1.5)), 1.8)}
    names = [name for name in summary.rows if name != BASELINE]
    for number, name in enumerate(names):
        cycle, index = divmod(number, len(COLORS))
        found[name] = Style(COLORS[index], _DASHES[cycle % len(_DASHES)])
    return found


def drawn(summary: ExperimentSummary) -> list[VariantSummary]:
    """Return the rows whose curves are drawn: those with curves, at most MAX_LINES."""
    rows = [row for row in summary.rows.values() if any("curve" in each for each in row.results)]
    return rows[:MAX_LINES]


def number(value: float | None) -> float:
    """Return a value to plot; None becomes NaN, a gap."""
    return math.nan if value is None else value


def has_values(summary: ExperimentSummary, path: Sequence[str]) -> bool:
    """Return whether a drawn variant has a measurement at a path."""
    return any(
        value_at(point, path) is not None
        for row in drawn(summary)
        for result in row.results
        for point in result.get("measurements") or []
    )


def last_measurement(result: Result) -> dict[str, Any]:
    """Return the measurements of the last checkpoint; empty if there are none."""
    point: dict[str, Any] = (result.get("measurements") or [{}])[-1]
    return point


def value_at(point: Any, path: Sequence[str]) -> float | None:
    """Return the number at a path of names, the mean if it is a list, or None if it is missing.

    A recurrent network has ``encoder`` in place of ``encoder_0``.
    """
    for name in path:
        values = point if isinstance(point, dict) else {}
        point = values.get(name, values.get(name.split("_")[0]))
    if isinstance(point, list):
        numbers = [each for each in point if each is not None]
        return statistics.fmean(numbers) if numbers else None
    return point
