"""The three attentions of the Transformer (section 3.2.3) and their names in pictures."""

from __future__ import annotations

from typing import NamedTuple

from keras_transformer.visualize.heads import Part


class PartNames(NamedTuple):
    """Names of a part, for titles and axes."""

    title: str
    rows: str
    columns: str
    special: str
    """The tokens that often take unused weight."""


PARTS: dict[Part, PartNames] = {
    "cross": PartNames(
        "Cross-attention",
        "rows = queries: token written",
        "columns = keys: source token",
        "the end token",
    ),
    "encoder": PartNames(
        "Encoder self-attention",
        "rows = queries: source token",
        "columns = keys: source token",
        "the end token",
    ),
    "decoder": PartNames(
        "Decoder self-attention",
        "rows = queries: token read",
        "columns = keys: token read",
        "the start token",
    ),
}
"""Names by part, in the order in which they are shown."""
