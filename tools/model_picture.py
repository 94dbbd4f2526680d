"""Generator of the picture of the functional model, docs/images/model.svg (figure 1)."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli.streams import output
from tools import svg
from tools.model_graph import Call, Node, Sublayer, arguments, nodes, section, sublayers

if TYPE_CHECKING:
    import keras

FILE = Path(__file__).resolve().parents[1] / "docs" / "images" / "model.svg"
COMMAND = "python -m tools.model_picture"

WIDTH, HEIGHT, MASK = 216.0, 40.0, 128.0  # of boxes; width of masks
GAP, CLOSE, TITLE, FRAME, MIDDLE, MARGIN = 30.0, 14.0, 34.0, 32.0, 256.0, 24.0
COLORS = {
    "InputLayer": "#e8ecf1",
    "TokenEmbedding": "#fbe3dc",
    "PositionalEncoding": "#fdf1d6",
    "PaddingMask": "#ece2f6",
    "MultiHeadAttention": "#fde3bf",
    "FeedForward": "#dcebf7",
    "SublayerConnection": "#dff2e3",
}
WORDS = {"InputLayer": "token ids", "SublayerConnection": "add & norm"}  # not the class names
NOTES = (
    ("names", "in model.summary() and in weight paths"),
    ("§", "section of the paper"),
    ("dashed", "masks"),
    ("softmax", "in the loss and the search"),
)
PALE, GROUND, DASHED = "#52606d", "#f6f8fa", "#9a7fc0"

Box = tuple[float, float, float, float]  # x, y, width, height


def base_model() -> keras.Model:
    """Return the paper's base model, but with narrow layers: widths are not drawn."""
    from keras_transformer import build, preset  # imports TensorFlow

    config = dataclasses.replace(
        preset("base").model,
        source_vocabulary_size=10,
        target_vocabulary_size=10,
        d_model=8,
        heads=2,
        d_ff=16,
    )
    return build(config)


def picture(model: keras.Model) -> str:
    """Return the SVG file.

    Args:
        model: From `keras_transformer.build`, with the paper's order of normalization.
    """
    layout = Layout(model)
    parts = [*_frames(layout), *_edges(layout), *_boxes(layout), *_notes(layout)]
    title = "The Transformer: layers of the functional model and their connections"
    return svg.document(layout.width, layout.bottom + MARGIN, title, parts)


class Layout:
    """Places of all boxes: source on the left, target on the right, masks in the middle."""

    def __init__(self, model: keras.Model) -> None:
        self.layers: dict[str, keras.layers.Layer] = {layer.name: layer for layer in model.layers}
        self.nodes: dict[Call, Node] = nodes(model)
        self.stacks: dict[str, list[Sublayer]] = {
            name: sublayers(layer)
            for name, layer in self.layers.items()
            if hasattr(layer, "layers")
        }
        self.boxes: dict[Call, Box] = {}
        self.parts: dict[tuple[str, str], Box] = {}  # of a stack
        self.columns = [self._column("source"), self._column("target")]
        self.width = 2 * (MARGIN + WIDTH + 2 * FRAME) + MIDDLE
        heights = [sum(map(self._height, column)) + GAP * len(column) for column in self.columns]
        self.bottom = MARGIN + max(heights) + 20
        self._place()

    def side(self, call: Call) -> str:
        """Return "target" if a call depends on the target, else "source"."""
        if call[0] == "target":
            return "target"
        sides = map(self.side, self.nodes[call].inputs)
        return "target" if "target" in sides else "source"

    def is_mask(self, call: Call) -> bool:
        return type(self.layers[call[0]]).__name__ == "PaddingMask"

    def layer_part(self, stack: str, name: str) -> keras.layers.Layer:
        return getattr(self.layers[stack].layers[0], name)

    def _column(self, side: str) -> list[Call]:
        """Return the calls of a side, without masks, from the input upwards."""
        calls = [call for call in self.nodes if self.side(call) == side and not self.is_mask(call)]

        def depth(call: Call) -> int:
            return 1 + max((depth(c) for c in self.nodes[call].inputs if c in calls), default=0)

        return sorted(calls, key=depth)

    def _height(self, call: Call) -> float:
        if call[0] not in self.stacks:
            return HEIGHT
        return len(self.stacks[call[0]]) * (2 * HEIGHT + CLOSE + GAP) + TITLE

    def _place(self) -> None:
        right = self.width - MARGIN - FRAME - WIDTH
        for column, x in zip(self.columns, (MARGIN + FRAME, right), strict=True):
            y = self.bottom
            for call in column:
                height = self._height(call)
                y -= height
                self.boxes[call] = (x, y, WIDTH, height)
                if call[0] in self.stacks:
                    self.boxes[call] = (x - FRAME, y, WIDTH + 2 * FRAME, height)
                    self._place_sublayers(call[0], x, y + height)
                y -= GAP
        for call in filter(self.is_mask, self.nodes):
            x = self.width / 2 + (-6 - MASK if self.side(call) == "source" else 6)
            self.boxes[call] = (x, self.bottom - 2 * HEIGHT - GAP, MASK, HEIGHT)

    def _place_sublayers(self, stack: str, x: float, y: float) -> None:
        for part in self.stacks[stack]:
            y -= GAP + HEIGHT
            self.parts[stack, part.name] = (x, y, WIDTH, HEIGHT)
            y -= CLOSE + HEIGHT
            self.parts[stack, part.connection] = (x, y, WIDTH, HEIGHT)


def _frames(layout: Layout) -> Iterator[str]:
    for (name, _), (x, y, width, height) in layout.boxes.items():
        if name in layout.stacks:
            layer = layout.layers[name]
            yield svg.rect(x, y, width, height, GROUND, radius=10, stroke=svg.EDGE)
            yield svg.text(x + 12, y + 21, name, 13, "start", bold=True)
            label = f"N = {len(layer.layers)} · §{section(layer)}"
            yield svg.text(x + width - 12, y + 21, label, 11, "end", PALE)


def _edges(layout: Layout) -> Iterator[str]:
    for column in layout.columns:
        for call in column:
            for origin in layout.nodes[call].inputs:
                if origin in column:
                    yield svg.route([_out(layout, origin), _into(layout, call)])
            if call[0] in layout.stacks:
                yield from _stack_edges(layout, call)
    for call in filter(layout.is_mask, layout.nodes):
        x, y, width, height = layout.boxes[call]
        for origin in layout.nodes[call].inputs:
            start = _side(layout.boxes[origin], x)
            middle = x + width / 2
            yield svg.route(
                [start, (middle, start[1]), (middle, y + height)], stroke=DASHED, dashed=True
            )
    x, y = _out(layout, layout.columns[1][-1])
    yield svg.route([(x, y), (x, y - GAP + 4)])
    yield svg.text(x, y - GAP - 4, "logits", bold=True)


def _stack_edges(layout: Layout, call: Call) -> Iterator[str]:
    """Yield the arrows inside a stack, and those that enter it from the side."""
    stack = call[0]
    origins = arguments(layout.layers[stack], layout.nodes[call])
    below = _into(layout, call)
    for number, part in enumerate(layout.stacks[stack]):
        inner, outer = layout.parts[stack, part.name], layout.parts[stack, part.connection]
        x = _top(inner)[0]
        if number:
            yield svg.route([below, (x, inner[1] + HEIGHT)])
        yield svg.route([_top(inner), (x, outer[1] + HEIGHT)])
        yield _residual(inner, outer, outwards=-1 if x < layout.width / 2 else 1)
        for name in part.inputs:
            yield from _from_the_side(layout, name, origins[name], inner)
        below = _top(outer)


def _residual(inner: Box, outer: Box, outwards: int) -> str:
    """Return the arrow around a sub-layer, on the side away from the middle."""
    x, y = inner[0] + WIDTH / 2, inner[1] + HEIGHT + GAP / 2
    edge = x + outwards * WIDTH / 2
    lane, end = edge + outwards * FRAME / 2, outer[1] + HEIGHT / 2
    return svg.route([(x, y), (lane, y), (lane, end), (edge, end)])


def _from_the_side(layout: Layout, name: str, origin: Call, box: Box) -> Iterator[str]:
    """Yield the arrow of a mask, or of the encoder's output with its name, to a sub-layer."""
    x, y = _out(layout, origin)
    if layout.is_mask(origin):
        end = (_side(box, x)[0], box[1] + HEIGHT - 11)
        yield svg.route([(x, y), (x, end[1]), end], stroke=DASHED, dashed=True)
        return
    middle, above = layout.width / 2, layout.boxes[origin][1] - 16
    end = (_side(box, middle)[0], box[1] + 11)
    yield svg.route([(x, y), (x, above), (middle, above), (middle, end[1]), end])
    yield svg.text((x + middle) / 2, above - 6, name, 11, fill=PALE)


def _boxes(layout: Layout) -> Iterator[str]:
    for call, box in layout.boxes.items():
        if call[0] not in layout.stacks:
            note = ", reverse" if layout.nodes[call].options.get("reverse") else ""
            yield from _box(call[0], layout.layers[call[0]], box, note)
    for stack, parts in layout.stacks.items():
        for part in parts:
            notes = {part.name: ", causal" if part.causal else "", part.connection: ""}
            for name, note in notes.items():
                layer = layout.layer_part(stack, name)
                yield from _box(name, layer, layout.parts[stack, name], note)


def _box(name: str, layer: keras.layers.Layer, box: Box, note: str) -> Iterator[str]:
    x, y, width, height = box
    kind = type(layer).__name__
    label = WORDS.get(kind, kind) + note + (f" · §{section(layer)}" if section(layer) else "")
    yield svg.rect(x, y, width, height, COLORS.get(kind, "#ffffff"), radius=6, stroke=svg.EDGE)
    yield svg.text(x + width / 2, y + 17, name, 13, bold=True)
    yield svg.text(x + width / 2, y + 32, label, 11, fill=PALE)


def _notes(layout: Layout) -> Iterator[str]:
    names = [name for name, _ in layout.boxes]
    shared = {name: names.count(name) for name in names if names.count(name) > 1}
    notes = [*NOTES, *((name, f"one layer, called {n} times") for name, n in shared.items())]
    for number, (name, meaning) in enumerate(notes):
        y = MARGIN + 14 + number * 20
        yield svg.text(MARGIN, y, name, 12, "start", bold=True)
        yield svg.text(MARGIN + 92, y, meaning, 12, "start", PALE)


def _out(layout: Layout, call: Call) -> tuple[float, float]:
    """Return the point where the output of a call leaves."""
    if call[0] in layout.stacks:
        return _top(layout.parts[call[0], layout.stacks[call[0]][-1].connection])
    return _top(layout.boxes[call])


def _into(layout: Layout, call: Call) -> tuple[float, float]:
    """Return the point where the first input of a call enters."""
    box = layout.boxes[call]
    if call[0] in layout.stacks:
        box = layout.parts[call[0], layout.stacks[call[0]][0].name]
    return box[0] + box[2] / 2, box[1] + box[3]


def _top(box: Box) -> tuple[float, float]:
    return box[0] + box[2] / 2, box[1]


def _side(box: Box, x: float) -> tuple[float, float]:
    """Return the middle of the side that looks towards ``x``."""
    return (box[0] if x < box[0] else box[0] + box[2]), box[1] + box[3] / 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Draw the model.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"default: {FILE.name}")
    with output(str(parser.parse_args(arguments).file), "file") as stream:
        stream.write(picture(base_model()))


if __name__ == "__main__":
    main()
