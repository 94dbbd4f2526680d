"""Comparison of two sentences, or of two runs with one sentence.

Shapes: T queries, S keys.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_transformer.visualize import html_page
from keras_transformer.visualize.attention_view import AttentionView, Head
from keras_transformer.visualize.drawing import drawing_module
from keras_transformer.visualize.heads import AttentionKind
from keras_transformer.visualize.page_data import page_data
from keras_transformer.visualize.tokens import Token

if TYPE_CHECKING:
    from keras_transformer.visualize.heatmaps import Picture


class Difference(NamedTuple):
    """Second minus first, for the tokens that correspond."""

    weights: np.ndarray
    """(T, S), from -1 to 1."""
    rows: tuple[str, ...]
    """T labels; ``cat → dog`` where the tokens differ."""
    columns: tuple[str, ...]
    """S labels."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two views side by side, with the difference of their weights."""

    first: AttentionView
    second: AttentionView
    names: tuple[str, str]
    of_runs: bool
    """Whether the views come from two models, whose heads do not correspond."""

    @property
    def kinds(self) -> list[AttentionKind]:
        """Kinds of attention that both models have."""
        return [kind for kind in self.first.kinds if kind in self.second.kinds]

    @property
    def caption(self) -> str:
        """Explanation of the difference maps."""
        text = (
            "Difference: second minus first, for the tokens that both have in the same order. A "
            "replaced token is paired with its replacement; others are left out."
        )
        if self.of_runs:
            text += " The heads of two runs do not correspond: compare the mean of the heads."
        return text

    def difference(self, kind: AttentionKind, layer: int = -1, head: Head = "mean") -> Difference:
        """Return the difference of the weights of one head.

        Args:
            kind: "cross", "encoder" or "decoder".
            layer: From 0; or from -1, the last one, downwards.
            head: From 0, or "mean" for the mean of the heads.
        """
        pairs = {
            side: matched(getattr(self.first, side)(kind), getattr(self.second, side)(kind))
            for side in ("rows", "columns")
        }
        maps = [
            view.weights(kind, layer, head)[0][
                np.ix_(*([pair[index] for pair in pairs[side]] for side in ("rows", "columns")))
            ]
            for index, view in enumerate((self.first, self.second))
        ]
        labels = {
            side: tuple(
                _pair_label(
                    getattr(self.first, side)(kind)[one], getattr(self.second, side)(kind)[other]
                )
                for one, other in pairs[side]
            )
            for side in pairs
        }
        return Difference(maps[1] - maps[0], labels["rows"], labels["columns"])

    def figure(
        self, kind: AttentionKind = "cross", layer: int = -1, head: Head = "mean"
    ) -> Picture:
        """Draw both maps and their difference; arguments as in `difference`."""
        picture: Picture = drawing_module("comparison_figures").comparison_figure(
            self, kind, layer, head
        )
        return picture

    def page(self) -> str:
        """Return the interactive page, one self-contained HTML file."""
        views = [page_data(view) for view in (self.first, self.second)]
        differences = {"caption": self.caption, "kinds": self._differences()}
        return html_page.page("Attention, compared", views, differences, self.names)

    def _differences(self) -> dict[str, Any]:
        """Return the pairs of corresponding tokens; the page subtracts the weights."""
        found: dict[str, Any] = {}
        for kind in self.kinds:
            rows, columns = (
                matched(getattr(self.first, side)(kind), getattr(self.second, side)(kind))
                for side in ("rows", "columns")
            )
            found[kind] = {"rows": rows, "columns": columns}
        return found

    def save(self, folder: Path, extension: str = "png") -> list[Path]:
        """Write the page and the pictures; see `files.save_comparison`."""
        from keras_transformer.visualize.files import save_comparison

        return save_comparison(self, folder, extension)

    def _repr_html_(self) -> str:
        return html_page.inline(self.page())


def compare(
    first: AttentionView,
    second: AttentionView,
    names: tuple[str, str] = ("first", "second"),
    *,
    of_runs: bool = False,
) -> Comparison:
    """Put two views side by side.

    Args:
        first: The view to compare with.
        second: The other one.
        names: Their headings.
        of_runs: Whether they come from two models.
    """
    return Comparison(first, second, names, of_runs)


def matched(first: Sequence[Token], second: Sequence[Token]) -> list[tuple[int, int]]:
    """Return the indices of tokens that correspond, in order.

    Equal tokens correspond, and so do the tokens of a span and its replacement of equal length.
    """
    one, other = ([token.label for token in tokens] for tokens in (first, second))
    found: list[tuple[int, int]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, one, other, False).get_opcodes():
        if tag == "equal" or (tag == "replace" and b - a == d - c):
            found.extend(zip(range(a, b), range(c, d), strict=True))
    return found


def _pair_label(first: Token, second: Token) -> str:
    return first.label if first.label == second.label else f"{first.label} → {second.label}"
