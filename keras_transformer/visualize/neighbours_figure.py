"""Picture of embedding neighbours in Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.visualize.fonts import drawable_labels, use_fonts
from keras_transformer.visualize.maps import Picture, label_inches

if TYPE_CHECKING:
    from keras_transformer.visualize.embedding_neighbours import Neighbours


def neighbours_figure(found: Neighbours) -> Picture:
    """Draw a row for each token, coloured by cosine."""
    count = max(len(row) for row in found.nearest)
    with use_fonts():
        names = drawable_labels([token.label for token in found.tokens])
        texts = [drawable_labels([each.token.label for each in row]) for row in found.nearest]
        cell = max(label_inches(row, 8) for row in texts) + 0.5
        left = label_inches(names, 9) + 0.25
        width, height = left + cell * count + 0.1, 0.28 * len(names) + 0.5
        figure = Picture(figsize=(max(width, 4.5), height), dpi=110)
        width = figure.get_figwidth()
        axes = figure.add_axes(
            (left / width, 0.08 / height, cell * count / width, 0.28 * len(names) / height)
        )
        cosines = np.array([[each.cosine for each in row] for row in found.nearest])
        axes.imshow(cosines, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for row, labels in enumerate(texts):
            for column, label in enumerate(labels):
                axes.text(
                    column,
                    row,
                    f"{label}  {cosines[row, column]:.2f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if cosines[row, column] > 0.6 else "black",
                )
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.set_xticks([])
        axes.tick_params(length=0)
        figure.text(
            0.1 / width,
            1 - 0.08 / height,
            f"Nearest embeddings by cosine, {found.side}",
            fontsize=9,
            va="top",
        )
    return figure
