"""Pictures of a trained model: attention, search, next tokens, and the parts of the model.

The public names load on first use, so that importing the package imports neither TensorFlow nor
Matplotlib::

    from keras_transformer import Translator, visualize

    translator = Translator.from_run(Path("runs/phrasebook"))
    visualize.attention(translator, "How are you?")  # in a notebook: the interactive page
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from keras_transformer.visualize.drawing import drawing_module

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_rollout import rollout as rollout
    from keras_transformer.visualize.attention_view import AttentionView as AttentionView
    from keras_transformer.visualize.attention_view import attention as attention
    from keras_transformer.visualize.beam import BeamTree as BeamTree
    from keras_transformer.visualize.beam import beam_tree as beam_tree
    from keras_transformer.visualize.comparison import Comparison as Comparison
    from keras_transformer.visualize.comparison import compare as compare
    from keras_transformer.visualize.embedding_neighbours import Neighbours as Neighbours
    from keras_transformer.visualize.embedding_neighbours import neighbours as neighbours
    from keras_transformer.visualize.fonts import use_fonts as use_fonts
    from keras_transformer.visualize.heads import HeadStatistics as HeadStatistics
    from keras_transformer.visualize.heads import head_statistics as head_statistics
    from keras_transformer.visualize.heatmaps import heatmap as heatmap
    from keras_transformer.visualize.masks import masks_figure as masks_figure
    from keras_transformer.visualize.positions import positions_figure as positions_figure
    from keras_transformer.visualize.schedules import schedules_figure as schedules_figure

_SOURCES = {
    "AttentionView": "attention_view",
    "BeamTree": "beam",
    "Comparison": "comparison",
    "HeadStatistics": "heads",
    "Neighbours": "embedding_neighbours",
    "attention": "attention_view",
    "beam_tree": "beam",
    "compare": "comparison",
    "head_statistics": "heads",
    "heatmap": "heatmaps",
    "masks_figure": "masks",
    "neighbours": "embedding_neighbours",
    "positions_figure": "positions",
    "rollout": "attention_rollout",
    "schedules_figure": "schedules",
    "use_fonts": "fonts",
}
"""Module of each public name; no module has the name of a function, which it would hide."""

_DRAWING = ("heatmap", "masks_figure", "positions_figure", "schedules_figure")
"""Public names that need Matplotlib."""

__all__ = [
    "AttentionView",
    "BeamTree",
    "Comparison",
    "HeadStatistics",
    "Neighbours",
    "attention",
    "beam_tree",
    "compare",
    "head_statistics",
    "heatmap",
    "masks_figure",
    "neighbours",
    "positions_figure",
    "rollout",
    "schedules_figure",
    "use_fonts",
]


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _DRAWING:
        return getattr(drawing_module(_SOURCES[name]), name)
    return getattr(importlib.import_module(f"{__name__}.{_SOURCES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
