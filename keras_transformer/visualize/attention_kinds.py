"""The three kinds of attention (section 3.2.3) and their names in pictures."""

from __future__ import annotations

from typing import NamedTuple

from keras_transformer.visualize.heads import AttentionKind


class KindNames(NamedTuple):
    """Names of one kind, for titles and axes."""

    title: str
    rows: str
    columns: str
    special: str
    """The special token on which unused weight often rests."""


ATTENTION_KINDS: dict[AttentionKind, KindNames] = {
    "cross": KindNames(
        "Cross-attention",
        "rows = queries: token written",
        "columns = keys: source token",
        "the end token",
    ),
    "encoder": KindNames(
        "Encoder self-attention",
        "rows = queries: source token",
        "columns = keys: source token",
        "the end token",
    ),
    "decoder": KindNames(
        "Decoder self-attention",
        "rows = queries: token read",
        "columns = keys: token read",
        "the start token",
    ),
}
"""Names by kind, in the order of the pictures."""
