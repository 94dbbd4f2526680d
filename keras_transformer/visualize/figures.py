"""Pictures of a sentence pair in Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.visualize.attention_rollout import CAPTION as ROLLOUT_CAPTION
from keras_transformer.visualize.fonts import use_fonts
from keras_transformer.visualize.heads import HeadStatistics, Part
from keras_transformer.visualize.maps import Map, Picture, heatmaps, maps_beside
from keras_transformer.visualize.next_tokens import NextTokens
from keras_transformer.visualize.parts import PARTS
from keras_transformer.visualize.renormalization import CAPTION as LEFT_OUT_CAPTION
from keras_transformer.visualize.renormalization import without_special_keys
from keras_transformer.visualize.tokens import Token
from keras_transformer.visualize.value_table import value_table

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_view import AttentionView, Head


def labels(tokens: Sequence[Token]) -> list[str]:
    """Return the labels of tokens."""
    return [token.label for token in tokens]


def attention_figure(
    view: AttentionView, part: Part, layer: int | None, head: Head | None, end: bool
) -> Picture:
    """Draw maps of a part; see `AttentionView.figure`."""
    names, columns = PARTS[part], view.columns(part)
    chosen = range(len(view.layers(part))) if layer is None else [layer]
    maps, titles = [], []
    for index in chosen:
        weights = view.layers(part)[index]
        if head is not None:
            weights = weights.mean(0)[None] if head == "mean" else weights[head][None]
        if not end:
            weights, columns = without_special_keys(weights, view.columns(part))
        maps.append(list(weights))
        titles.append([_title(index, head, place) for place in range(len(weights))])
    title = names.title if end else f"{names.title}. {left_out(part)}"
    return heatmaps(
        maps,
        labels(view.rows(part)),
        labels(columns),
        titles,
        title,
        names.rows,
        names.columns,
        most=6.0 if len(maps) == len(maps[0]) == 1 else 3.0,
    )


def left_out(part: Part) -> str:
    """Return the caption of maps without start and end tokens."""
    return LEFT_OUT_CAPTION.format(names=PARTS[part].special)


def _title(layer: int, head: Head | None, place: int) -> str:
    if head == "mean":
        return f"layer {layer + 1}, mean of heads"
    return f"layer {layer + 1}, head {(place if head is None else head) + 1}"


def rollout_figure(view: AttentionView) -> Picture:
    """Draw the attention rollout of encoder and decoder, or of the one that there is.

    Raises:
        ValueError: The model has no self-attention.
    """
    parts = [part for part in view.parts if part != "cross"]
    if not parts:
        raise ValueError("rollout: expected a model with self-attention, got a recurrent one")
    maps = [
        Map(
            view.rollout(part),
            labels(view.rows(part)),
            labels(view.columns(part)),
            f"Rollout: {PARTS[part].title.lower()}",
            "rows = positions of the last layer",
            "columns = input tokens",
        )
        for part in parts
    ]
    return maps_beside(maps, ROLLOUT_CAPTION)


def heads_figure(statistics: Sequence[HeadStatistics]) -> Picture:
    """Draw a table for each part: layers × heads, coloured by entropy, with the roles."""
    parts = [part for part in PARTS if any(each.part == part for each in statistics)]
    sizes = {}
    for part in parts:
        own = [each for each in statistics if each.part == part]
        sizes[part] = max(each.layer for each in own) + 1, max(each.head for each in own) + 1
    width = max(1.35 * heads for _, heads in sizes.values()) + 1.1
    width = max(width, 4.6)
    height = sum(0.5 * layers + 0.65 for layers, _ in sizes.values()) + 0.55
    with use_fonts():
        figure = Picture(figsize=(width, height), dpi=110)
        y = 0.35
        for part, (layers, heads) in sizes.items():
            axes = figure.add_axes(
                (
                    0.75 / width,
                    1 - (y + 0.5 * layers) / height,
                    1.35 * heads / width,
                    0.5 * layers / height,
                )
            )
            values = np.full((layers, heads), np.nan)
            for each in (each for each in statistics if each.part == part):
                share = each.entropy / each.max_entropy if each.max_entropy else 0.0
                values[each.layer, each.head] = share
                axes.text(
                    each.head,
                    each.layer,
                    f"{each.role}\nentropy {each.entropy:.2f}, distance {each.distance:.1f}",
                    ha="center",
                    va="center",
                    fontsize=6.5,
                    color="white" if share > 0.6 else "black",
                )
            axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set_title(PARTS[part].title, fontsize=9, loc="left", pad=3)
            axes.set_xticks(range(heads), [f"head {head + 1}" for head in range(heads)])
            axes.set_yticks(range(layers), [f"layer {layer + 1}" for layer in range(layers)])
            axes.tick_params(length=0, labelsize=8)
            y += 0.5 * layers + 0.65
        figure.text(
            0.1 / width,
            0.1 / height,
            "Colour: entropy (nats) as a share of the greatest, ln of the number of keys.\n"
            "Distance in tokens. Rules of the roles: see the page.",
            fontsize=7,
        )
    return figure


def next_tokens_figure(positions: Sequence[NextTokens]) -> Picture:
    """Draw a row for each position: its most probable tokens, the chosen one framed."""
    return value_table(
        [position.chosen.token.label for position in positions],
        [labels([each.token for each in position.candidates]) for position in positions],
        [[each.probability for each in position.candidates] for position in positions],
        "Token written, its probability and rank; most probable next tokens",
        [f"{position.chosen.probability:.2f}, rank {position.rank}" for position in positions],
        [
            [each.token == position.chosen.token for each in position.candidates]
            for position in positions
        ],
    )
