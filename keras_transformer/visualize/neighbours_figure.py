"""Picture of embedding neighbours in Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keras_transformer.visualize.heatmaps import Picture
from keras_transformer.visualize.value_table import value_table

if TYPE_CHECKING:
    from keras_transformer.visualize.embedding_neighbours import Neighbours


def neighbours_figure(found: Neighbours) -> Picture:
    """Draw a row for each token, its neighbours coloured by cosine."""
    return value_table(
        [token.label for token in found.tokens],
        [[each.token.label for each in row] for row in found.nearest],
        [[each.cosine for each in row] for row in found.nearest],
        f"Nearest embeddings by cosine, {found.side}",
    )
