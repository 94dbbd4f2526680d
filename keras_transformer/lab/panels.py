"""Panels of an experiment, by the kinds of figures that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keras_transformer.lab import comparisons
from keras_transformer.lab.curves import curves
from keras_transformer.lab.panel import Panel
from keras_transformer.lab.rows import Sheet

_MAKERS: dict[str, Callable[[Sheet], Iterator[Panel]]] = {
    "curves": curves,
    "grid": comparisons.grid,
    "scores": comparisons.scores,
    "length": comparisons.lengths,
    "search": comparisons.searches,
    "reliability": comparisons.reliability,
    "ranks": comparisons.ranks,
    "activations": comparisons.activations,
}


def panels(sheet: Sheet) -> list[Panel]:
    """Return the panels of an experiment that have something to show."""
    found: list[Panel] = []
    if not any(row.results for row in sheet.rows.values()):
        return found
    for plot in sheet.experiment.plots:
        found += _MAKERS[plot](sheet)
    return found
