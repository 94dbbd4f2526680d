"""Parts of SVG pictures: white background, real text in the reader's fonts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

FONT = "Helvetica, Arial, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
EDGE = "#8a99a8"


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return an SVG file.

    Args:
        width: In pixels.
        height: In pixels.
        title: Description for readers who do not see the picture.
        parts: Elements, later ones above earlier ones.
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="{FONT}">'
    )
    background = rect(0, 0, width, height, "#ffffff", radius=8)
    return "\n".join([head, f"<title>{escape(title)}</title>", background, *parts, "</svg>", ""])


def rect(x: float, y: float, width: float, height: float, fill: str, **options: object) -> str:
    """Return a rectangle; ``radius`` rounds its corners, ``stroke`` draws its edge."""
    stroke = f' stroke="{options["stroke"]}"' if "stroke" in options else ""
    radius = f' rx="{options["radius"]}"' if "radius" in options else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"'
        f"{stroke}{radius}/>"
    )


def text(
    x: float,
    y: float,
    content: str,
    size: float = 13,
    anchor: str = "middle",
    fill: str = "#1f2933",
    bold: bool = False,
) -> str:
    """Return a line of text whose baseline is at ``y``."""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" '
        f'fill="{fill}"{weight}>{escape(content)}</text>'
    )


def line(start: tuple[float, float], end: tuple[float, float], stroke: str = EDGE) -> str:
    """Return a straight line."""
    (x1, y1), (x2, y2) = start, end
    return f'<path d="M {x1:g} {y1:g} L {x2:g} {y2:g}" stroke="{stroke}" stroke-width="1.3"/>'


def arrow(
    start: tuple[float, float], end: tuple[float, float], head: bool = True, stroke: str = EDGE
) -> str:
    """Return a curve that leaves and arrives vertically, with or without a head at its end."""
    (x1, y1), (x2, y2) = start, end
    middle, stop = (y1 + y2) / 2, y2 - 6 if head else y2
    curve = (
        f'<path d="M {x1:g} {y1:g} C {x1:g} {middle:g}, {x2:g} {middle:g}, {x2:g} {stop:g}" '
        f'fill="none" stroke="{stroke}" stroke-width="1.3"/>'
    )
    if not head:
        return curve
    return (
        f'{curve}<path d="M {x2 - 4:g} {y2 - 8:g} L {x2:g} {y2:g} L {x2 + 4:g} {y2 - 8:g} Z" '
        f'fill="{stroke}"/>'
    )


def route(points: Sequence[tuple[float, float]], dashed: bool = False, stroke: str = EDGE) -> str:
    """Return straight lines through the points, with a head at the last one."""
    (x1, y1), (x2, y2) = points[-2:]
    length = math.hypot(x2 - x1, y2 - y1)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    stops = [*points[:-1], (x2 - 6 * dx, y2 - 6 * dy)]
    path = " L ".join(f"{x:g} {y:g}" for x, y in stops)
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    left, right = (f"{x2 - 8 * dx + side * dy:g} {y2 - 8 * dy - side * dx:g}" for side in (-4, 4))
    return (
        f'<path d="M {path}" fill="none" stroke="{stroke}" stroke-width="1.3" '
        f'stroke-linejoin="round"{dash}/><path d="M {left} L {x2:g} {y2:g} L {right} Z" '
        f'fill="{stroke}"/>'
    )
