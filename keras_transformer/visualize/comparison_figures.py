"""Pictures of a comparison in Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keras_transformer.visualize.attention_kinds import ATTENTION_KINDS
from keras_transformer.visualize.figures import labels
from keras_transformer.visualize.heads import AttentionKind
from keras_transformer.visualize.heatmaps import Heatmap, Picture, heatmap_row

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_view import Head
    from keras_transformer.visualize.comparison import Comparison


def comparison_figure(
    comparison: Comparison, kind: AttentionKind, layer: int = -1, head: Head = "mean"
) -> Picture:
    """Draw both maps and their difference; see `Comparison.figure`."""
    names = ATTENTION_KINDS[kind]
    axes = names.rows, names.columns
    maps = []
    for name, view in zip(comparison.names, (comparison.first, comparison.second), strict=True):
        weights, _ = view.weights(kind, layer, head)
        rows, columns = labels(view.rows(kind)), labels(view.columns(kind))
        maps.append(Heatmap(weights, rows, columns, name, *axes))
    maps.append(Heatmap(*comparison.difference(kind, layer, head), "difference", *axes, True))
    where = "last layer" if layer == -1 else f"layer {layer + 1}"
    which = "mean of heads" if head == "mean" else f"head {head + 1}"
    return heatmap_row(maps, f"{names.title}, {where}, {which}. {comparison.caption}")
