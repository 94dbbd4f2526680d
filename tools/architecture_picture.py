"""Generator of the picture of the package's folders and imports, docs/images/architecture.svg."""

from __future__ import annotations

import argparse
import ast
import textwrap
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

from keras_transformer.cli.streams import output
from tools import svg

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "keras_transformer"
FILE = ROOT / "docs" / "images" / "architecture.svg"
COMMAND = "python -m tools.architecture_picture"

COMMANDS = "commands"
FOUNDATION = "foundation"
LIBRARY = "library"
RUN = "run"
BUILTIN = "builtin_models"
LOOSE = (COMMANDS, FOUNDATION, LIBRARY, RUN)  # not the rooms of one folder
IN_FOUNDATION = ("config",)  # folders
PASS = ">"
WIDTH, PASSAGE, GAP, LINE, ROW = 190.0, 4.0, 24.0, 15.0, 46.0
COLORS = ("#e8ecf1", "#dcebf7", "#dff2e3", "#fdf1d6", "#fbe3dc", "#ece2f6", "#e3f1f1")

Graph = dict[str, set[str]]
Box = tuple[float, float, float, float]  # x, y, width, height


def rooms() -> dict[str, list[str]]:
    """Return the names of the modules in each room of the package.

    A folder is a room, and so is ``run``. The other files are the commands, which can be run, the
    library, which offers what the folders hold, or the foundation, which every room may import.
    """
    found: dict[str, list[str]] = {}
    for path in _sources():
        inside = path.relative_to(PACKAGE if _room(path) in LOOSE else PACKAGE / _room(path))
        label = f"{inside.parts[0]}/" if len(inside.parts) > 1 else inside.stem
        labels = found.setdefault(_room(path), [])
        if label != "__init__" and label not in labels:
            labels.append(label)
    return {
        room: sorted(names, key=lambda name: (name[-1] == "/", name))
        for room, names in found.items()
    }


def imports() -> Graph:
    """Return the rooms that each room imports, without the foundation."""
    graph: Graph = {room: set() for room in rooms()}
    for path in _sources():
        for module in _imported(path):
            target = _room(_file(module))
            if target not in (_room(path), FOUNDATION):
                graph[_room(path)].add(target)
    return graph


def reduced(graph: Graph) -> Graph:
    """Return the graph without edges that a longer way replaces.

    Raises:
        graphlib.CycleError: Rooms import each other.
    """
    below: Graph = {}
    for room in TopologicalSorter(graph).static_order():
        below[room] = set(graph[room]).union(*(below[target] for target in graph[room]))
    return {
        room: {
            target
            for target in targets
            if not any(target in below[other] for other in targets - {target})
        }
        for room, targets in graph.items()
    }


def levels(graph: Graph) -> list[list[str]]:
    """Return the rooms by the length of the longest way down, the lowest first.

    An edge that passes a level has a place of its own there, named ``ROOM>TARGET>LEVEL``.
    """
    depth: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        depth[room] = max((depth[target] + 1 for target in graph[room]), default=0)
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    below = {room: set(targets) for room, targets in graph.items()}
    for room in graph:
        rows[depth[room]].append(room)
        for target in graph[room]:
            for level in range(depth[target] + 1, depth[room]):
                rows[level].append(f"{room}{PASS}{target}{PASS}{level}")
    for lower, row in pairwise(rows):
        row.sort(key=lambda name: (_mean_place(_next(name, below, lower), lower), name))
    return rows


def _next(name: str, below: Graph, lower: list[str]) -> set[str]:
    """Return the places in the row below that a place leads to."""
    room, *passed = name.split(PASS)
    targets = passed[:1] or below[room]
    passes = {target: f"{room}{PASS}{target}{PASS}" for target in targets}
    return {
        next((place for place in lower if place.startswith(passes[target])), target)
        for target in targets
    }


def _mean_place(targets: set[str], row: list[str]) -> float:
    places = [row.index(target) for target in targets if target in row]
    return sum(places) / len(places) if places else len(row) / 2


def picture() -> str:
    """Return the SVG file."""
    content, graph = rooms(), reduced(imports())
    graph.pop(FOUNDATION, None)
    rows = levels(graph)
    lines = {room: textwrap.wrap(", ".join(names), 30) for room, names in content.items()}
    lines |= {RUN: ["the run folder"], BUILTIN: ["trained models"]}
    boxes, bottom = _boxes(rows, lines)
    width = max(x + wide for x, _, wide, _ in boxes.values()) + GAP
    parts = []
    for upper, lower in pairwise(reversed(rows)):
        for name in upper:
            for target in sorted(_next(name, graph, lower) & set(lower)):
                head = PASS not in target
                parts.append(svg.arrow(_bottom(boxes[name]), _top(boxes[target]), head))
    for level, row in enumerate(rows):
        for name in row:
            if PASS in name:
                parts.append(svg.line(_top(boxes[name]), _bottom(boxes[name])))
            else:
                parts += _box(name, boxes[name], lines[name], COLORS[(level + 1) % len(COLORS)])
    ground = (GAP, bottom, width - 2 * GAP, 42.0)
    parts += _box("imported by all", ground, [", ".join(content[FOUNDATION])], COLORS[0])
    title = "Folders of keras_transformer and their imports"
    return svg.document(width, bottom + ground[3] + GAP, title, parts)


def _boxes(rows: list[list[str]], lines: dict[str, list[str]]) -> tuple[dict[str, Box], float]:
    """Return the box of each place, and the bottom of the lowest row."""
    wide = [[PASSAGE if PASS in name else WIDTH for name in row] for row in rows]
    whole = max(sum(widths) + GAP * len(widths) for widths in wide) + GAP
    boxes: dict[str, Box] = {}
    y = GAP
    for row, widths in zip(reversed(rows), reversed(wide), strict=True):
        height = max(len(lines[name]) for name in row if PASS not in name) * LINE + 34
        x = (whole - sum(widths) - GAP * (len(row) - 1)) / 2
        for name, width in zip(row, widths, strict=True):
            boxes[name] = (x, y, width, height)
            x += width + GAP
        y += height + ROW
    return boxes, y - ROW / 2


def _box(room: str, box: Box, lines: list[str], color: str) -> Iterator[str]:
    x, y, width, height = box
    yield svg.rect(x, y, width, height, color, radius=6, stroke="#8a99a8")
    yield svg.text(x + width / 2, y + 18, room, 14, bold=True)
    for number, line in enumerate(lines):
        yield svg.text(x + width / 2, y + 34 + number * LINE, line, 11, fill="#52606d")


def _bottom(box: Box) -> tuple[float, float]:
    return box[0] + box[2] / 2, box[1] + box[3]


def _top(box: Box) -> tuple[float, float]:
    return box[0] + box[2] / 2, box[1]


def _sources() -> list[Path]:
    """Return the modules; the public names of the package itself belong to no room."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def _room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    if len(parts) > 1:
        return FOUNDATION if parts[0] in IN_FOUNDATION else parts[0]
    if path.stem == RUN:
        return RUN
    if "__main__" in path.read_text(encoding="utf-8"):
        return COMMANDS
    folders = {
        module.split(".")[1] for module in _imported(path) if _file(module).parent != PACKAGE
    }
    return LIBRARY if folders - set(IN_FOUNDATION) else FOUNDATION


def _file(module: str) -> Path:
    """Return the file of a module, such as ``keras_transformer.data.corpus``."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _imported(path: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if _inside(name.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _inside(node.module):
            for name in node.names:
                module = f"{node.module}.{name.name}"
                yield module if _file(module).exists() else node.module


def _inside(module: str) -> bool:
    return module.split(".")[0] == PACKAGE.name


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Draw folders and imports.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"default: {FILE.name}")
    with output(str(parser.parse_args(arguments).file), "file") as stream:
        stream.write(picture())


if __name__ == "__main__":
    main()
