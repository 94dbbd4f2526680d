"""Picture of the attention masks (section 3.2.3)."""

from __future__ import annotations

import numpy as np

from keras_transformer.model.masks import look_ahead_mask, padding_mask
from keras_transformer.special_tokens import END, PAD
from keras_transformer.visualize.fonts import use_fonts
from keras_transformer.visualize.heatmaps import Picture


def masks_figure(
    source: int = 6, source_padding: int = 2, target: int = 5, padding: int = 1
) -> Picture:
    """Draw the masks of the three kinds of attention; a query may attend to dark cells.

    Args:
        source: Source length with padding.
        source_padding: Number of padding positions in it.
        target: Target length with padding.
        padding: Number of padding positions in it.
    """

    def keys(length: int, padded: int) -> np.ndarray:
        ids = np.array([[END] * (length - padded) + [PAD] * padded])
        return np.asarray(padding_mask(ids))[0, 0]  # (1, length)

    ahead = np.asarray(look_ahead_mask(target, target))[0, 0]  # (T, T)
    own = np.broadcast_to(keys(target, padding), (target, target))
    memory = keys(source, source_padding)
    maps = {
        "encoder: padding": np.broadcast_to(memory, (source, source)),
        "decoder: look-ahead": ahead,
        "decoder: padding": own,
        "decoder: both": ahead & own,
        "cross: source padding": np.broadcast_to(memory, (target, source)),
    }
    with use_fonts():
        figure = Picture(figsize=(2.5 * len(maps), 3.1), dpi=110, layout="constrained")
        for axes, (title, mask) in zip(figure.subplots(1, len(maps)), maps.items(), strict=True):
            axes.pcolormesh(
                mask.astype(float), cmap="Blues", vmin=0, vmax=1.3, edgecolors="#999999", lw=0.5
            )
            axes.set_aspect("equal")
            axes.invert_yaxis()
            rows, columns = mask.shape
            axes.set_xticks(np.arange(columns) + 0.5, [str(place) for place in range(columns)])
            axes.set_yticks(np.arange(rows) + 0.5, [str(place) for place in range(rows)])
            axes.tick_params(length=0, labelsize=8)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("key", fontsize=8)
            axes.set_ylabel("query", fontsize=8)
        figure.suptitle("Masks: dark = True, may attend. Rows = queries.", fontsize=10)
    return figure
