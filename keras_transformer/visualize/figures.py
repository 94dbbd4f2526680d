"""Pictures of a sentence pair in Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from keras_transformer.visualize.attention_kinds import ATTENTION_KINDS
from keras_transformer.visualize.attention_rollout import CAPTION as ROLLOUT_CAPTION
from keras_transformer.visualize.fonts import use_fonts
from keras_transformer.visualize.heads import AttentionKind, HeadStatistics
from keras_transformer.visualize.heatmaps import Heatmap, Picture, heatmap_grid, heatmap_row
from keras_transformer.visualize.next_tokens import NextTokens
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
    view: AttentionView,
    kind: AttentionKind,
    layer: int | None,
    head: Head | None,
    special_tokens: bool,
) -> Picture:
    """Draw heat maps of one kind of attention; see `AttentionView.figure`."""
    names, columns = ATTENTION_KINDS[kind], view.columns(kind)
    chosen = range(len(view.layers(kind))) if layer is None else [layer]
    maps, titles = [], []
    for index in chosen:
        weights = view.layers(kind)[index]
        if head is not None:
            weights = weights.mean(0)[None] if head == "mean" else weights[head][None]
        if not special_tokens:
            weights, columns = without_special_keys(weights, view.columns(kind))
        maps.append(list(weights))
        titles.append([_title(index, head, place) for place in range(len(weights))])
    title = names.title if special_tokens else f"{names.title}. {left_out(kind)}"
    return heatmap_grid(
        maps,
        labels(view.rows(kind)),
        labels(columns),
        titles,
        title,
        names.rows,
        names.columns,
        max_side=6.0 if len(maps) == len(maps[0]) == 1 else 3.0,
    )


def left_out(kind: AttentionKind) -> str:
    """Return the caption of maps without start and end tokens."""
    return LEFT_OUT_CAPTION.format(names=ATTENTION_KINDS[kind].special)


def _title(layer: int, head: Head | None, place: int) -> str:
    if head == "mean":
        return f"layer {layer + 1}, mean of heads"
    return f"layer {layer + 1}, head {(place if head is None else head) + 1}"


def rollout_figure(view: AttentionView) -> Picture:
    """Draw the attention rollout of encoder and decoder, of those with self-attention.

    Raises:
        ValueError: The model has no self-attention.
    """
    kinds = [kind for kind in view.kinds if kind != "cross"]
    if not kinds:
        raise ValueError("rollout: expected a model with self-attention, got a recurrent one")
    maps = [
        Heatmap(
            view.rollout(kind),
            labels(view.rows(kind)),
            labels(view.columns(kind)),
            f"Rollout: {ATTENTION_KINDS[kind].title.lower()}",
            "rows = positions of the last layer",
            "columns = input tokens",
        )
        for kind in kinds
    ]
    return heatmap_row(maps, ROLLOUT_CAPTION)


def heads_figure(statistics: Sequence[HeadStatistics]) -> Picture:
    """Draw a table for each kind: layers × heads, coloured by entropy, with the roles."""
    kinds = [kind for kind in ATTENTION_KINDS if any(each.kind == kind for each in statistics)]
    sizes = {}
    for kind in kinds:
        own = [each for each in statistics if each.kind == kind]
        sizes[kind] = max(each.layer for each in own) + 1, max(each.head for each in own) + 1
    width = max(1.35 * heads for _, heads in sizes.values()) + 1.1
    width = max(width, 4.6)
    height = sum(0.5 * layers + 0.65 for layers, _ in sizes.values()) + 0.55
    with use_fonts():
        figure = Picture(figsize=(width, height), dpi=110)
        y = 0.35
        for kind, (layers, heads) in sizes.items():
            bottom = 1 - (y + 0.5 * layers) / height
            axes = figure.add_axes(
                (0.75 / width, bottom, 1.35 * heads / width, 0.5 * layers / height)
            )
            own = [each for each in statistics if each.kind == kind]
            _draw_heads(axes, own, ATTENTION_KINDS[kind].title, layers, heads)
            y += 0.5 * layers + 0.65
        figure.text(
            0.1 / width,
            0.1 / height,
            "Colour: entropy (nats) relative to its maximum, ln of the number of keys.\n"
            "Distance in tokens. Rules of the roles: see the page.",
            fontsize=7,
        )
    return figure


def _draw_heads(
    axes: Axes, statistics: Sequence[HeadStatistics], title: str, layers: int, heads: int
) -> None:
    """Draw the table of one kind of attention."""
    values = np.full((layers, heads), np.nan)
    for each in statistics:
        relative = each.entropy / each.max_entropy if each.max_entropy else 0.0
        values[each.layer, each.head] = relative
        axes.text(
            each.head,
            each.layer,
            f"{each.role}\nentropy {each.entropy:.2f}, distance {each.distance:.1f}",
            ha="center",
            va="center",
            fontsize=6.5,
            color="white" if relative > 0.6 else "black",
        )
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_title(title, fontsize=9, loc="left", pad=3)
    axes.set_xticks(range(heads), [f"head {head + 1}" for head in range(heads)])
    axes.set_yticks(range(layers), [f"layer {layer + 1}" for layer in range(layers)])
    axes.tick_params(length=0, labelsize=8)


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
