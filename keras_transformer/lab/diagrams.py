"""Diagram of the model as inline SVG, with the boxes that an experiment changes marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

WIDTH, HEIGHT = 374, 358
_W, _H, _GAP = 108, 20, 8  # of a box, and between boxes
_LEFT, _RIGHT, _MIDDLE = 46, 208, 181
_BASE = 330  # top of the lowest boxes

Box = tuple[float, float, float, float]  # x, y, width, height


def _column(x: float, names: Sequence[str], top: float) -> dict[str, Box]:
    """Return boxes in a column, from the bottom up."""
    return {name: (x, top - number * (_H + _GAP), _W, _H) for number, name in enumerate(names)}


def _layout() -> dict[str, list[Box]]:
    """Return the boxes of each name; a name may have several."""
    encoder = ("encoder attention", "add", "encoder feed-forward", "add ")
    decoder = (
        *("decoder attention", "add", "cross-attention", "add "),
        *("decoder feed-forward", "add  "),
    )
    below = _BASE - 2 * (_H + _GAP) - 8
    found: dict[str, list[Box]] = {
        "source embedding": [(_LEFT, _BASE, _W, _H)],
        "target embedding": [(_RIGHT, _BASE, _W, _H)],
        "positions": [(x, _BASE - _H - _GAP, _W, _H) for x in (_LEFT, _RIGHT)],
    }
    for prefix, x, names in (("encoder", _LEFT, encoder), ("decoder", _RIGHT, decoder)):
        for name, box in _column(x, names, below).items():
            key = f"{prefix} add" if name.startswith("add") else name
            found.setdefault(key, []).append(box)
        top = below - (len(names) - 1) * (_H + _GAP)
        found[prefix] = [(x - 14, top - 8, _W + 28, below + _H - top + 16)]
    above = found["decoder"][0][1]
    found["projection"] = [(_RIGHT, above - _H - 10, _W, _H)]
    found["loss"] = [(_RIGHT, above - 2 * _H - 18, _W, _H)]
    found["data"] = [(_LEFT, 70, _W, _H)]
    found["optimizer"] = [(_LEFT, 42, _W, _H)]
    found["search"] = [(_LEFT, 14, _W, _H)]
    return found


BOXES = _layout()
"""Boxes by name."""

LABELS = {
    "encoder attention": "self-attention",
    "decoder attention": "masked attention",
    "encoder add": "add & norm",
    "decoder add": "add & norm",
    "encoder feed-forward": "feed-forward",
    "decoder feed-forward": "feed-forward",
    "loss": "softmax, loss",
    "search": "search",
    "optimizer": "optimizer, rate",
    "data": "data, vocabulary",
}
"""Labels that differ from the names of their boxes."""


def diagram(changed: Sequence[str]) -> str:
    """Return the model as SVG, with the changed boxes marked.

    Args:
        changed: Names from `BOXES`.

    Raises:
        ValueError: A name is unknown.
    """
    unknown = set(changed) - BOXES.keys()
    if unknown:
        raise ValueError(f"expected boxes of the diagram, got {', '.join(sorted(unknown))}")
    title = f"The model; changed: {', '.join(changed)}"
    head = (
        f'<svg class="model" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>'
    )
    parts = [*_frames(changed), *_arrows(), *_boxes(changed), "</svg>"]
    return head + "".join(parts)


def _frames(changed: Sequence[str]) -> Iterator[str]:
    for name in ("encoder", "decoder"):
        x, y, width, height = BOXES[name][0]
        kind = "frame changed" if name in changed else "frame"
        yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
        side = x - 4 if name == "encoder" else x + width + 4
        anchor = "end" if name == "encoder" else "start"
        yield f'<text class="note" x="{side}" y="{y + height / 2}" text-anchor="{anchor}">N×</text>'


def _boxes(changed: Sequence[str]) -> Iterator[str]:
    for name, boxes in BOXES.items():
        if name in ("encoder", "decoder"):
            continue
        kind = "box changed" if name in changed else "box"
        label = escape(LABELS.get(name, name))
        for x, y, width, height in boxes:
            yield (
                f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
                f'<text x="{x + width / 2}" y="{y + 14}" text-anchor="middle">{label}</text>'
            )


def _arrows() -> Iterator[str]:
    for left, end in ((_LEFT, BOXES["encoder"][0][1]), (_RIGHT, BOXES["loss"][0][1])):
        yield _line([(left + _W / 2, _BASE), (left + _W / 2, end)])
    x = _LEFT + _W / 2
    _, y, _, height = BOXES["cross-attention"][0]
    top = BOXES["encoder"][0][1] - 12
    end = y + height / 2
    points = [(x, top + 12), (x, top), (_MIDDLE, top), (_MIDDLE, end), (_RIGHT, end)]
    yield _line(points)


def _line(points: Sequence[tuple[float, float]]) -> str:
    path = " L ".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path class="flow" d="M {path}"/>'
