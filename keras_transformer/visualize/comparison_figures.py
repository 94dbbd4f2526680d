"""Pictures of a comparison in Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keras_transformer.visualize.figures import beside, labels
from keras_transformer.visualize.heads import Part
from keras_transformer.visualize.maps import Picture, heatmap
from keras_transformer.visualize.parts import PARTS

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_view import Head
    from keras_transformer.visualize.comparison import Comparison


def comparison_figure(
    comparison: Comparison, part: Part, layer: int = -1, head: Head = "mean"
) -> Picture:
    """Draw both maps and their difference; see `Comparison.figure`."""
    names = PARTS[part]
    axes = {"row_axis": names.rows, "column_axis": names.columns}
    pictures = []
    for name, view in zip(
        comparison.names, (comparison.first, comparison.second), strict=True
    ):
        rows, columns = labels(view.rows(part)), labels(view.columns(part))
        weights, _ = view.weights(part, layer, head)
        pictures.append(heatmap(weights, rows, columns, name, **axes))
    found = comparison.difference(part, layer, head)
    pictures.append(
        heatmap(
            found.weights, found.rows, found.columns, "difference", **axes, difference=True
        )
    )
    where = "last layer" if layer == -1 else f"layer {layer + 1}"
    which = "mean of heads" if head == "mean" else f"head {head + 1}"
    return beside(pictures, f"{names.title}, {where}, {which}. {comparison.caption}")
