"""Picture of the positional encodings and of their dot products (section 3.5).

Shapes: T positions, D model width.
"""

from __future__ import annotations

import keras
import numpy as np

from keras_transformer.model import transformer
from keras_transformer.model.positions import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    sinusoidal_encoding,
)
from keras_transformer.model.variants.embedding_norm import NormalizedPositionalEncoding
from keras_transformer.model.variants.sinusoids import AlternativeSinusoidalEncoding
from keras_transformer.visualize.fonts import use_fonts
from keras_transformer.visualize.heatmaps import Picture

MARKED = (0, 20, 50)
"""Positions whose dot products with all others are drawn."""


def positions_figure(
    width: int = 512, length: int = 100, table: np.ndarray | None = None, name: str = ""
) -> Picture:
    """Draw encodings, waves of single features, and dot products by distance.

    Args:
        width: D of sinusoidal encodings.
        length: T.
        table: (at least T, D) encodings to draw instead, such as learned ones.
        name: Of the encoding, for the title.
    """
    encoding = np.asarray(sinusoidal_encoding(length, width) if table is None else table[:length])
    width = encoding.shape[1]
    title = name or ("sinusoidal" if table is None else "learned")
    with use_fonts():
        figure = Picture(figsize=(12, 3.8), dpi=110, layout="constrained")
        heat, waves, products = figure.subplots(1, 3, width_ratios=(1.2, 1, 1))
        limit = float(np.abs(encoding).max())
        image = heat.imshow(
            encoding, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        figure.colorbar(image, ax=heat)
        heat.set(xlabel="feature", ylabel="position", title=f"Positional encoding, {title}")
        for feature in sorted({min(index, width - 1) for index in (0, 1, width // 8, width // 3)}):
            waves.plot(encoding[:, feature], label=f"feature {feature}", linewidth=1.2)
        waves.set(xlabel="position", title="Single features")
        marked = [position for position in MARKED if position < len(encoding)]
        dots = encoding @ encoding.T  # (T, T)
        for position in marked:
            distances = np.arange(len(encoding)) - position
            products.plot(distances, dots[position], label=f"from position {position}", linewidth=1)
        products.set(xlabel="distance in positions", title="Dot product of two positions")
        for axes in (waves, products):
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7, frameon=False)
    return figure


def model_positions_figure(model: keras.Model) -> Picture:
    """Draw the positional encoding of a model: its own if it adds one, else the paper's."""
    layers = {layer.name: layer for layer in model.layers}
    layer = layers.get("source_positions")
    if isinstance(layer, NormalizedPositionalEncoding):
        layer = layer.encoding
    if isinstance(layer, LearnedPositionalEncoding):
        return positions_figure(table=np.asarray(layer.table))
    embedding = transformer.source_embedding(model)
    if isinstance(layer, AlternativeSinusoidalEncoding):
        table = layer.add_encoding(np.zeros([1, 100, embedding.d_model], np.float32), 0)[0]
        return positions_figure(table=np.asarray(table), name="sinusoidal\n(of this model)")
    if type(layer) is PositionalEncoding:
        return positions_figure(embedding.d_model)
    name = "sinusoidal\n(of the paper; this model adds none)"
    return positions_figure(embedding.d_model, name=name)
