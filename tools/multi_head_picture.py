"""Generator of the picture of attention, docs/images/multi_head_attention.svg (figure 2)."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli.streams import output
from tools import svg

if TYPE_CHECKING:
    import keras

    from keras_transformer.model.attention import MultiHeadAttention

FILE = Path(__file__).resolve().parents[1] / "docs" / "images" / "multi_head_attention.svg"
COMMAND = "python -m tools.multi_head_picture"

WIDTH, HEIGHT = 150.0, 42.0  # of boxes
STEP, MARGIN, TOP = 92.0, 24.0, 86.0
LEFT, MIDDLE = 400.0, 58.0  # width of the left half; gap to the right half
LANES = {"Q": 0.0, "K": 182.0, "V": 364.0}  # left edges of the right half's columns
DEPTH = 5.0  # offset of the boxes of further heads
PALE = "#52606d"
COLORS = {
    "product": "#dcebf7",
    "scale": "#fdf1d6",
    "mask": "#ece2f6",
    "softmax": "#dff2e3",
    "dropout": "#e8ecf1",
    "kernel": "#fbe3dc",
    "reshape": "#fdf1d6",
    "attention": "#fde3bf",
}
# Steps of `scaled_dot_product_attention`, upwards: kind, label, shape of the result.
STEPS = (
    ("scale", "scale by 1 / √K", "(B, H, T, K)"),
    ("product", "Q Kᵀ", "scores (B, H, T, S)"),
    ("mask", "mask", "(B, H, T, S)"),
    ("softmax", "softmax over keys", "weights (B, H, T, S)"),
    ("dropout", "dropout, in training", "(B, H, T, S)"),
    ("product", "weights · V", "(B, H, T, K)"),
)


def base_attention() -> MultiHeadAttention:
    """Return the attention of the paper's base model."""
    from keras_transformer import preset
    from keras_transformer.model.components import cross_attention

    layer = cross_attention(preset("base").model)
    layer.build()
    return layer


def picture(layer: MultiHeadAttention) -> str:
    """Return the SVG file: equation 1 on the left, multi-head attention on the right.

    Args:
        layer: A built layer, whose weights are named with their shapes.
    """
    bottom = TOP + (len(STEPS) - 1) * STEP + HEIGHT + 64
    width = 2 * MARGIN + LEFT + MIDDLE + LANES["V"] + WIDTH + 4 * DEPTH
    parts = [*_equation(bottom), *_multi_head(layer, MARGIN + LEFT + MIDDLE, bottom)]
    border = MARGIN + LEFT + MIDDLE / 2 - 16
    parts.append(svg.line((border, TOP), (border, bottom), stroke="#dde3e9"))
    title = "Scaled dot-product attention, and multi-head attention with its weights"
    return svg.document(width, bottom + 30, title, parts)


def _equation(bottom: float) -> Iterator[str]:
    x = MARGIN + 150
    yield _heading(MARGIN, "scaled_dot_product_attention", "equation 1, §3.2.1")
    places = []
    for number, (kind, label, shape) in enumerate(STEPS):
        y = bottom - 60 - HEIGHT - number * STEP
        places.append((x, y))
        yield from _box(x, y, kind, label)
        yield svg.text(x + WIDTH / 2 + 10, y - 20, shape, 11, "start", PALE)
    for (_, y), (_, above) in itertools.pairwise(places):
        yield svg.route([(x + WIDTH / 2, y), (x + WIDTH / 2, above + HEIGHT)])
    first, last = places[0][1], places[-1][1]
    yield svg.route([(x + WIDTH / 2, bottom - 14), (x + WIDTH / 2, first + HEIGHT)])
    yield svg.text(x + WIDTH / 2, bottom + 2, "Q", bold=True)
    yield svg.text(x + WIDTH / 2, bottom + 17, "(B, H, T, K)", 11, fill=PALE)
    for name, lane, target in (("K", MARGIN + 104, places[1][1]), ("V", MARGIN + 34, last)):
        end = target + HEIGHT / 2
        yield svg.route([(lane, bottom - 14), (lane, end), (x, end)])
        yield svg.text(lane, bottom + 2, name, bold=True)
        yield svg.text(lane, bottom + 17, "(B, H, S, K)", 11, fill=PALE)
    yield svg.route([(x + WIDTH / 2, last), (x + WIDTH / 2, last - 34)])


def _multi_head(layer: MultiHeadAttention, left: float, bottom: float) -> Iterator[str]:
    yield _heading(left, "MultiHeadAttention", "§3.2.2")
    names = {"Q": ("query_kernel", "W^Q"), "K": ("key_kernel", "W^K"), "V": ("value_kernel", "W^V")}
    rows = [bottom - 60 - HEIGHT - number * STEP for number in range(5)]
    kernels, splits, attention, merge, out = rows
    middle = left + LANES["K"] + WIDTH / 2
    wide = LANES["V"] + WIDTH
    for lane, (name, symbol) in names.items():
        x = left + LANES[lane]
        center = x + WIDTH / 2
        source = "query (B, T, D)" if lane == "Q" else "memory (B, S, D)"
        width = layer.value_width if lane == "V" else layer.key_width
        yield svg.text(center, bottom + 2, source)
        yield svg.route([(center, bottom - 14), (center, kernels + HEIGHT)])
        yield from _box(x, kernels, "kernel", name, f"{symbol} {_shape(getattr(layer, name))}")
        yield svg.route([(center, kernels), (center, splits + HEIGHT)])
        yield from _box(x, splits, "reshape", "split_heads", f"{layer.heads} heads of {width}")
        yield svg.route([(center, splits), (center, attention + HEIGHT)])
        yield svg.text(center + 6, splits - 18, lane, 12, "start", bold=True)
    for depth in (3, 2, 1, 0):
        x, y = left + depth * DEPTH, attention - depth * DEPTH
        yield svg.rect(x, y, wide, HEIGHT, COLORS["attention"], radius=6, stroke=svg.EDGE)
    yield svg.text(left + wide / 2, attention + 18, "scaled_dot_product_attention", bold=True)
    yield svg.text(
        left + wide / 2, attention + 33, f"all {layer.heads} heads at once", 11, fill=PALE
    )
    yield svg.route([(middle, attention - 3 * DEPTH), (middle, merge + HEIGHT)])
    yield from _box(
        middle - WIDTH / 2, merge, "reshape", "merge_heads", f"{layer.heads} × {layer.value_width}"
    )
    yield svg.route([(middle, merge), (middle, out + HEIGHT)])
    label = f"W^O {_shape(layer.output_kernel)}"
    yield from _box(middle - WIDTH / 2, out, "kernel", "output_kernel", label)
    yield svg.route([(middle, out), (middle, out - 34)])
    yield svg.text(middle + 10, out - 22, "(B, T, D)", 11, "start", PALE)


def _box(x: float, y: float, kind: str, label: str, note: str = "") -> Iterator[str]:
    yield svg.rect(x, y, WIDTH, HEIGHT, COLORS[kind], radius=6, stroke=svg.EDGE)
    yield svg.text(x + WIDTH / 2, y + (18 if note else 26), label, 13, bold=True)
    if note:
        yield svg.text(x + WIDTH / 2, y + 33, note, 11, fill=PALE)


def _heading(x: float, name: str, note: str) -> str:
    title = svg.text(x, 30, name, 15, "start", bold=True)
    return title + "\n" + svg.text(x, 48, note, 12, "start", PALE)


def _shape(weight: keras.Variable) -> str:
    rows, columns = weight.shape
    return f"({rows}, {columns})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Draw multi-head attention.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"default: {FILE.name}")
    with output(str(parser.parse_args(arguments).file), "file") as stream:
        stream.write(picture(base_attention()))


if __name__ == "__main__":
    main()
