"""Heat maps of attention in Matplotlib.

Shapes: L rows of maps, N columns of maps, T queries, S keys.
"""

from __future__ import annotations

import io
import textwrap
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_transformer import system
from keras_transformer.visualize.fonts import drawable_labels, use_fonts

QUERIES, KEYS = "queries", "keys"

_DPI = 110
_POINT = 1 / 72  # inch
_COLORBAR = 0.75  # inches at the right
_GAP = 0.3  # between maps; holds a title
_TITLE = 0.35


class Picture(Figure):
    """A figure that notebooks show without pyplot, with fonts for any script.

    It ignores `figure.constrained_layout.use` and `figure.autolayout`, which a notebook may set and
    which would move axes with computed positions.
    """

    def __init__(self, *sizes: Any, layout: Any = "none", **options: Any) -> None:
        super().__init__(*sizes, layout=layout, **options)

    def save(self, path: Path) -> None:
        """Write the picture atomically, in the format of the file's extension.

        Raises:
            FileError: The file cannot be written.
        """
        with system.atomic_file(path) as partial, use_fonts():
            self.savefig(partial, format=path.suffix[1:])

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        with use_fonts():
            self.savefig(stream, format="png")
        return stream.getvalue()


def heatmap(
    weights: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    *,
    row_axis: str = QUERIES,
    column_axis: str = KEYS,
    difference: bool = False,
) -> Picture:
    """Draw one heat map of weights on the scale 0 to 1.

    Args:
        weights: (T, S) numbers.
        rows: T labels.
        columns: S labels.
        title: Above the map.
        row_axis: Name of the rows, which are queries in all maps of this package.
        column_axis: Name of the columns.
        difference: Whether the numbers are differences, from -1 to 1.
    """
    one = Heatmap(weights, rows, columns, title, row_axis, column_axis, difference)
    return heatmap_row([one])


class Heatmap(NamedTuple):
    """A heat map with its labels; the fields are the arguments of `heatmap`."""

    weights: Any
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    row_axis: str = QUERIES
    column_axis: str = KEYS
    difference: bool = False


def heatmap_row(maps: Sequence[Heatmap], caption: str = "") -> Picture:
    """Draw heat maps side by side, each with its labels and colour scale.

    Args:
        maps: From left to right.
        caption: Below them.
    """
    with use_fonts():
        layouts = [_Layout.of(one) for one in maps]
        total_width = sum(layout.total_width for layout in layouts)
        lines = textwrap.wrap(caption, int(total_width * 14))
        below = 0.16 * len(lines) + (0.15 if lines else 0.0)
        total_height = max(layout.total_height for layout in layouts) + below
        figure = Picture(figsize=(total_width, total_height), dpi=_DPI)
        x = 0.0
        for one, layout in zip(maps, layouts, strict=True):
            layout.draw(figure, one, x, total_width, total_height)
            x += layout.total_width
        figure.text(
            0.12 / total_width, 0.08 / total_height, "\n".join(lines), fontsize=8, va="bottom"
        )
    return figure


class _Layout(NamedTuple):
    """Layout of a heat map with labels, in inches."""

    row_labels: list[str]
    column_labels: list[str]
    size: float  # of the font, in points
    width: float
    height: float
    left: float
    bottom: float

    @classmethod
    def of(cls, one: Heatmap) -> _Layout:
        cell = min(0.3, 5.0 / max(len(one.rows), len(one.columns), 1))
        size = _font_size(cell)
        rows, columns = drawable_labels(one.rows), drawable_labels(one.columns)
        return cls(
            rows,
            columns,
            size,
            max(cell * len(columns), 1.2),
            max(cell * len(rows), 1.2),
            label_inches(rows, size) + 0.5,
            label_inches(columns, size) + 0.45,
        )

    @property
    def total_width(self) -> float:
        return self.left + self.width + _COLORBAR

    @property
    def total_height(self) -> float:
        return _TITLE + self.height + self.bottom

    def draw(self, figure: Picture, one: Heatmap, x: float, wide: float, high: float) -> None:
        """Draw at x inches from the left of a figure."""
        top = 1 - _TITLE / high
        axes = figure.add_axes(
            (
                (x + self.left) / wide,
                top - self.height / high,
                self.width / wide,
                self.height / high,
            )
        )
        image = _draw(axes, np.asarray(one.weights, np.float32), one.difference)
        axes.set_title(one.title, fontsize=9, pad=4)
        _label(axes.yaxis, self.row_labels, self.size, 0)
        _label(axes.xaxis, self.column_labels, self.size, 90)
        bar_height = min(self.height, 3.0)
        bar = figure.add_axes(
            (
                (x + self.left + self.width + 0.12) / wide,
                top - bar_height / high,
                0.12 / wide,
                bar_height / high,
            )
        )
        figure.colorbar(image, cax=bar).ax.tick_params(labelsize=8)
        # From the top: on a low map the text may be longer than the map.
        figure.text((x + 0.08) / wide, top, one.row_axis, rotation=90, va="top", fontsize=9)
        figure.text(
            (x + self.left + self.width / 2) / wide,
            top - (self.height + self.bottom - 0.08) / high,
            one.column_axis,
            ha="center",
            fontsize=9,
        )


def heatmap_grid(
    maps: Sequence[Sequence[np.ndarray]],
    rows: Sequence[str],
    columns: Sequence[str],
    titles: Sequence[Sequence[str]],
    title: str = "",
    row_axis: str = QUERIES,
    column_axis: str = KEYS,
    difference: bool = False,
    max_side: float = 3.0,
    cell: float = 0.17,
) -> Picture:
    """Draw L × N heat maps with the same labels and one colour scale.

    Args:
        maps: L rows of N maps (T, S); a row may have fewer.
        rows: T labels.
        columns: S labels.
        titles: One for each map.
        title: Of the whole picture.
        row_axis: As in `heatmap`.
        column_axis: As in `heatmap`.
        difference: As in `heatmap`.
        max_side: Largest side of a map, in inches.
        cell: Side of a cell in inches, if ``max_side`` allows it.
    """
    cell = min(cell, max_side / max(len(rows), len(columns), 1))
    # A minimum leaves room for the titles of short targets.
    width, height = max(cell * len(columns), 1.0), max(cell * len(rows), 0.5)
    size = _font_size(cell)
    with use_fonts():
        row_labels, column_labels = drawable_labels(rows), drawable_labels(columns)
        left = label_inches(row_labels, size) + 0.5
        bottom = label_inches(column_labels, size) + 0.45
        top = _GAP + (0.4 if title else 0.05)
        count = max(len(line) for line in maps)
        total_width = left + count * width + (count - 1) * _GAP + _COLORBAR
        total_height = top + len(maps) * height + (len(maps) - 1) * _GAP + bottom
        figure = Picture(figsize=(total_width, total_height), dpi=_DPI)

        def place(x: float, y: float, wide: float, high: float) -> Axes:
            """Add axes at inches from the left and the top."""
            return figure.add_axes(
                (
                    x / total_width,
                    1 - (y + high) / total_height,
                    wide / total_width,
                    high / total_height,
                )
            )

        for line, (maps_in_line, titles_in_line) in enumerate(zip(maps, titles, strict=True)):
            for place_in_line, values in enumerate(maps_in_line):
                x = left + place_in_line * (width + _GAP)
                axes = place(x, top + line * (height + _GAP), width, height)
                image = _draw(axes, values, difference)
                axes.set_title(titles_in_line[place_in_line], fontsize=9, pad=3)
                _label(axes.yaxis, row_labels if not place_in_line else [], size, 0)
                lowest = line == len(maps) - 1
                _label(axes.xaxis, column_labels if lowest else [], size, 90)
        bar = place(total_width - _COLORBAR + 0.2, top, 0.12, min(total_height - top - bottom, 3.0))
        figure.colorbar(image, cax=bar).ax.tick_params(labelsize=8)
        middle = 1 - (top + (total_height - top - bottom) / 2) / total_height
        figure.text(0.08 / total_width, middle, row_axis, rotation=90, va="center", fontsize=9)
        center = (left + (total_width - left - _COLORBAR) / 2) / total_width
        figure.text(center, 0.08 / total_height, column_axis, ha="center", fontsize=9)
        if title:
            figure.text(0.12 / total_width, 1 - 0.12 / total_height, title, va="top", fontsize=10)
    return figure


def _font_size(cell: float) -> float:
    """Return the font size of labels in points, for a cell's side in inches."""
    return min(max(cell / _POINT * 0.8, 4.0), 9.0)


def _draw(axes: Axes, values: np.ndarray, difference: bool) -> Any:
    colours, low = ("RdBu", -1) if difference else ("Blues", 0)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_color("#999999")
    return axes.imshow(
        values, cmap=colours, vmin=low, vmax=1, aspect="auto", interpolation="nearest"
    )


def _label(axis: Any, labels: Sequence[str], size: float, rotation: float) -> None:
    axis.set_ticks(range(len(labels)), labels, fontsize=size, rotation=rotation)
    for text in axis.get_ticklabels():
        if len(text.get_text()) <= 2:  # a Chinese character is easier to read upright
            text.set_rotation(0)


def label_inches(labels: Sequence[str], size: float) -> float:
    """Estimate the length of the longest label in inches, for a font size in points."""
    widths = (
        sum(1.0 if unicodedata.east_asian_width(sign) in "WF" else 0.62 for sign in label)
        for label in labels
    )
    return max(widths, default=0.0) * size * _POINT
