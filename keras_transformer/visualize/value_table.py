"""Tables of tokens in Matplotlib, coloured by a number.

Shapes: N rows, K columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_transformer.visualize.fonts import drawable_labels, use_fonts
from keras_transformer.visualize.heatmaps import Picture, label_inches

_ROW, _HEAD = 0.28, 0.6  # inches


def value_table(
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    values: Sequence[Sequence[float]],
    title: str,
    notes: Sequence[str] | None = None,
    framed: Sequence[Sequence[bool]] | None = None,
) -> Picture:
    """Draw tokens with a number each, a row for each name.

    Args:
        names: N tokens at the left.
        labels: N rows of K tokens.
        values: (N, K) numbers from 0 to 1.
        title: Above the table.
        notes: N texts after the names.
        framed: (N, K), cells with a frame.
    """
    rows, columns = len(labels), max(len(row) for row in labels)
    with use_fonts():
        left_labels = drawable_labels(names)
        if notes is not None:
            pairs = zip(left_labels, notes, strict=True)
            left_labels = [f"{label}   {note}" for label, note in pairs]
        texts = [drawable_labels(row) for row in labels]
        cell = max(label_inches(row, 8) for row in texts) + 0.55
        left = label_inches(left_labels, 8.5) + 0.3
        width, height = max(left + cell * columns + 0.15, 5.5), _ROW * rows + _HEAD
        figure = Picture(figsize=(width, height), dpi=110)
        axes = figure.add_axes(
            (left / width, 0.08 / height, cell * columns / width, _ROW * rows / height)
        )
        colours = np.zeros((rows, columns))
        for row, column in np.ndindex(rows, columns):
            if column >= len(texts[row]):
                continue
            colours[row, column] = value = values[row][column]
            in_frame = framed is not None and framed[row][column]
            axes.text(
                column,
                row,
                f"{texts[row][column]}  {value:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if value > 0.6 else "black",
                bbox={"fill": False, "pad": 1.5, "linewidth": 1} if in_frame else None,
            )
        axes.imshow(colours, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(columns), [str(rank + 1) for rank in range(columns)], fontsize=8)
        axes.xaxis.tick_top()
        axes.set_yticks(range(rows), left_labels, fontsize=8.5)
        axes.tick_params(length=0)
        figure.text(0.1 / width, 1 - 0.08 / height, title, fontsize=9, va="top")
    return figure
