"""Pictures of a comparison in Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keras_transformer.visualize.figures import labels
from keras_transformer.visualize.heads import Part
from keras_transformer.visualize.maps import Map, Picture, maps_beside
from keras_transformer.visualize.parts import PARTS

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_view import Head
    from keras_transformer.visualize.comparison import Comparison


def comparison_figure(
    comparison: Comparison, part: Part, layer: int = -1, head: Head = "mean"
) -> Picture:
    """Draw both maps and their difference; see `Comparison.figure`."""
    names = PARTS[part]
    axes = names.rows, names.columns
    maps = []
    for name, view in zip(comparison.names, (comparison.first, comparison.second), strict=True):
        weights, _ = view.weights(part, layer, head)
        rows, columns = labels(view.rows(part)), labels(view.columns(part))
        maps.append(Map(weights, rows, columns, name, *axes))
    maps.append(Map(*comparison.difference(part, layer, head), "difference", *axes, True))
    where = "last layer" if layer == -1 else f"layer {layer + 1}"
    which = "mean of heads" if head == "mean" else f"head {head + 1}"
    return maps_beside(maps, f"{names.title}, {where}, {which}. {comparison.caption}")
