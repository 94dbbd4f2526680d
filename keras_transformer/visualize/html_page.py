"""The interactive page: one HTML file with its script, style and data inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from keras_transformer.visualize.attention_rollout import CAPTION as ROLLOUT_CAPTION
from keras_transformer.visualize.heads import RULES
from keras_transformer.visualize.parts import PARTS
from keras_transformer.visualize.renormalization import CAPTION as LEFT_OUT_CAPTION

SCRIPTS = ("dom.js", "weights.js", "words.js", "map.js", "panel.js", "sections.js", "page.js")
"""Scripts in the order of their use; they share one scope."""

_FRAME = (
    '<iframe title="Attention" sandbox="allow-scripts" srcdoc="{page}" '
    'style="width: 100%; height: 900px; border: 0"></iframe>'
)


def page(
    title: str,
    views: Sequence[dict[str, Any]],
    differences: dict[str, Any] | None = None,
    names: Sequence[str] = ("",),
) -> str:
    """Return the text of the page.

    Args:
        title: Its heading.
        views: Contents of one sentence pair, or of two to compare.
        differences: Contents of the difference maps of two.
        names: A heading for each of ``views``.
    """
    data = {
        "views": list(views),
        "names": list(names),
        "differences": differences,
        "parts": {part: part_names._asdict() for part, part_names in PARTS.items()},
        "rules": RULES,
        "captions": {"leftOut": LEFT_OUT_CAPTION, "rollout": ROLLOUT_CAPTION},
    }
    return (
        _part("page.html")
        .replace("{title}", escape(title))
        .replace("{style}", _part("page.css"))
        .replace("{script}", "\n".join(_part(name) for name in SCRIPTS))
        .replace("{data}", _json(data))  # last: the texts in it may hold anything
    )


def inline(text: str) -> str:
    """Return HTML that shows a whole page inside another one, such as a notebook."""
    return _FRAME.format(page=escape(text))


def _json(data: Any) -> str:
    """Return JSON that may stand in a script element, whatever texts it has."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@cache
def _part(name: str) -> str:
    return (files("keras_transformer.visualize") / "page" / name).read_text(encoding="utf-8")
