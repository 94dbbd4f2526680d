"""Panels of figures, and the look of each variant in them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keras_transformer.lab.experiment import BASELINE
from keras_transformer.lab.rows import Row, Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#123454"
"""Colour of text and axes, which the report replaces by that of its page."""
MUTED = "#123455"
"""Colour of grids, replaced likewise."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Okabe and Ito's palette without its yellow and black."""
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
MAX_LINES = 13
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
        round_, index = divmod(number, len(COLORS))
        found[name] = Style(COLORS[index], _DASHES[round_ % len(_DASHES)])
    return found


def drawn(sheet: Sheet) -> list[Row]:
    """Return the rows whose curves are drawn: with results, at most MAX_LINES."""
    rows = [row for row in sheet.rows.values() if any("curve" in each for each in row.results)]
    return rows[:MAX_LINES]


def number(value: float | None) -> float:
    """Return a value for a plot: NaN, a gap, for None."""
    return math.nan if value is None else value


def has_values(sheet: Sheet, path: Sequence[str]) -> bool:
    """Return whether a drawn variant has a measurement at a path."""
    return any(
        value_at(point, path) is not None
        for row in drawn(sheet)
        for result in row.results
        for point in result.get("measurements") or []
    )


def value_at(point: Any, path: Sequence[str]) -> float | None:
    """Return the number at a path, the mean of a list of them, or None.

    A recurrent network has ``encoder`` in place of ``encoder_0``.
    """
    for name in path:
        values = point if isinstance(point, dict) else {}
        point = values.get(name, values.get(name.split("_")[0]))
    if isinstance(point, list):
        numbers = [each for each in point if each is not None]
        return statistics.fmean(numbers) if numbers else None
    return point
