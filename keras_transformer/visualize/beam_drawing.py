"""Drawing of a hypothesis tree as SVG, with text as text."""

from __future__ import annotations

import unicodedata
from html import escape
from typing import Protocol, Self

from keras_transformer.visualize.tokens import Token

_LANE, _GAP, _MARGIN = 30, 46, 12
_LETTER = 7.8  # width of a Latin letter in pixels

_STYLE = """
.beam { font: 13px system-ui, sans-serif; }
.beam text { fill: #1b1d20; } .beam .p { fill: #5a6067; font-size: 11px; }
.beam path { fill: none; stroke: #9aa3ad; } .beam path.best { stroke: #1c5d8c; }
.beam rect { fill: #ffffff; stroke: #c5cad0; } .beam rect.best { fill: #e2eef7; stroke: #1c5d8c; }
@media (prefers-color-scheme: dark) {
.beam text { fill: #e7e9eb; } .beam .p { fill: #a3abb3; }
.beam path { stroke: #6f7983; } .beam path.best { stroke: #8fc6ef; }
.beam rect { fill: #1a1e22; stroke: #3b434b; } .beam rect.best { fill: #23394a; stroke: #8fc6ef; }
}
"""


class Drawn(Protocol):
    """A node of a tree, such as `beam.Node`."""

    token: Token
    probability: float
    finished: bool
    score: float | None
    best: bool

    @property
    def children(self) -> list[Self]: ...


def draw(root: Drawn) -> str:
    """Return the text of an SVG file: the tree from left to right.

    Args:
        root: Its children are drawn from top to bottom.
    """
    widths: list[float] = []
    _measure(root, 0, widths)
    lefts = [_MARGIN + sum(widths[:depth]) + _GAP * depth for depth in range(len(widths))]
    lines: list[str] = []
    boxes: list[str] = []
    lanes = _place(root, 0, 0.0, lefts, widths, lines, boxes)[1]
    width = lefts[-1] + widths[-1] + _MARGIN
    height = 2 * _MARGIN + _LANE * lanes
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="beam" role="img" '
        f'aria-label="Hypothesis tree of the beam search" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
        f"<style>{_STYLE}</style>{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _texts(node: Drawn) -> tuple[str, str]:
    number = f"{node.score:.2f}" if node.score is not None else f"{node.probability:.2f}"
    return node.token.label, number


def _width(text: str) -> float:
    return sum(
        _LETTER * (1.7 if unicodedata.east_asian_width(sign) in "WF" else 1) for sign in text
    )


def _measure(node: Drawn, depth: int, widths: list[float]) -> None:
    """Collect the width of the widest box at each depth, in pixels."""
    if depth == len(widths):
        widths.append(0.0)
    label, number = _texts(node)
    widths[depth] = max(widths[depth], _width(label) + 0.85 * _width(number) + 22)
    for child in node.children:
        _measure(child, depth + 1, widths)


def _place(
    node: Drawn,
    depth: int,
    lane: float,
    lefts: list[float],
    widths: list[float],
    lines: list[str],
    boxes: list[str],
) -> tuple[float, float]:
    """Draw a node and its descendants, the first child in the lane of its parent.

    Returns:
        The y coordinate of the node, and the next free lane.
    """
    y = _MARGIN + (lane + 0.5) * _LANE
    label, number = _texts(node)
    width = _width(label) + 0.85 * _width(number) + 22
    left, style = lefts[depth], ' class="best"' if node.best else ""
    title = f"{node.token.spoken}: probability {node.probability:.4f}"
    if node.score is not None:
        title += f", score {node.score:.4f}"
    boxes.append(
        f"<g><title>{escape(title)}</title>"
        f'<rect{style} x="{left:.1f}" y="{y - 11:.1f}" width="{width:.1f}" height="22" rx="5"/>'
        f'<text x="{left + 7:.1f}" y="{y + 4.5:.1f}">{escape(label)}</text>'
        f'<text class="p" x="{left + width - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">'
        f"{number}</text></g>"
    )
    next_lane = lane
    for child in node.children:
        child_y, next_lane = _place(child, depth + 1, next_lane, lefts, widths, lines, boxes)
        start, end = left + width, lefts[depth + 1]
        bend = lefts[depth + 1] - _GAP / 2
        child_style = ' class="best"' if child.best else ""
        lines.append(
            f'<path{child_style} stroke-width="{0.8 + 2.7 * child.probability:.1f}" '
            f'd="M{start:.1f} {y:.1f}H{bend - 10:.1f}C{bend + 8:.1f} {y:.1f} '
            f'{bend - 8:.1f} {child_y:.1f} {end:.1f} {child_y:.1f}"/>'
        )
    return y, max(next_lane, lane + 1)
