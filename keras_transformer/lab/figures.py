"""Panels drawn with Matplotlib: SVG for the report, PNG for other documents."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer import system
from keras_transformer.lab.panel import INK, MUTED, Panel, drawn, styles
from keras_transformer.lab.plots import panels
from keras_transformer.lab.summaries import ExperimentSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (4.4, 2.9)
_WIDE = (6.6, 3.6)
_COLUMNS = 3
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.35,
    "axes.edgecolor": MUTED,
    "grid.color": MUTED,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


def svg(panel: Panel, name: str) -> str:
    """Return a panel as an SVG element in the text colour of its page.

    Args:
        panel: The panel.
        name: Name that is unique in the page: the ids in the SVG are made from it.
    """
    import matplotlib
    from matplotlib.figure import Figure

    settings = _SETTINGS | {"svg.hashsalt": name}
    size = _WIDE if panel.wide else _SIZE
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        _draw(panel, figure.subplots(), title=False)
        output = io.StringIO()
        figure.savefig(output, format="svg", transparent=True, metadata={"Date": None})
    text = output.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace(INK, "currentColor").replace(MUTED, "currentColor")


def write_png(summary: ExperimentSummary, path: Path) -> bool:
    """Draw all panels of an experiment into one PNG file; return False if there are none."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    found = panels(summary)
    if not found:
        return False
    columns = min(_COLUMNS, len(found))
    lines = math.ceil(len(found) / columns)
    size = (8.8, 4.2) if len(found) == 1 else (_SIZE[0] * columns, _SIZE[1] * lines + 0.4)
    line_styles, rows = styles(summary), drawn(summary)
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=size, dpi=80, layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel, cell in zip(found, axes, strict=False):
            _draw(panel, cell)
        for cell in axes[len(found) :]:
            cell.set_axis_off()
        if legend(summary):
            handles = [
                Line2D(
                    [],
                    [],
                    color=line_styles[row.name].color,
                    linestyle=line_styles[row.name].dashes,
                )
                for row in rows
            ]
            names = [row.name for row in rows]
            figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
        with system.atomic_file(path) as partial:
            figure.savefig(partial, format="png", metadata={"Software": None})
    return True


def _draw(panel: Panel, axes: Axes, title: bool = True) -> None:
    panel.draw(axes)
    if title:
        axes.set_title(panel.title)


def legend(summary: ExperimentSummary) -> Sequence[tuple[str, str, str]]:
    """Return name, colour and dash pattern of each drawn variant, for the page's own legend."""
    line_styles = styles(summary)
    found: list[tuple[str, str, str]] = []
    if set(summary.experiment.plots) <= {"scores", "search"}:
        return found  # their axes name the variants
    for row in drawn(summary):
        style = line_styles[row.name]
        dashes = (
            "" if style.dashes == "-" else " ".join(f"{2 * each:g}" for each in style.dashes[1])
        )
        color = "currentColor" if style.color == INK else style.color
        found.append((row.name, color, dashes))
    return found
