"""Panels of the figures that an experiment asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keras_transformer.lab import comparisons
from keras_transformer.lab.curves import curves
from keras_transformer.lab.panel import Panel
from keras_transformer.lab.summaries import ExperimentSummary

_PLOTS: dict[str, Callable[[ExperimentSummary], Iterator[Panel]]] = {
    "curves": curves,
    "grid": comparisons.grid,
    "scores": comparisons.scores,
    "length": comparisons.lengths,
    "search": comparisons.searches,
    "reliability": comparisons.reliability,
    "ranks": comparisons.ranks,
    "activations": comparisons.activations,
}


def panels(summary: ExperimentSummary) -> list[Panel]:
    """Return the panels of an experiment that have results."""
    found: list[Panel] = []
    if not any(row.results for row in summary.rows.values()):
        return found
    for plot in summary.experiment.plots:
        found += _PLOTS[plot](summary)
    return found
