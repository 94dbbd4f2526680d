"""The interactive page: one HTML file with its script, style and data inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from keras_transformer.visualize.attention_kinds import ATTENTION_KINDS
from keras_transformer.visualize.attention_rollout import CAPTION as ROLLOUT_CAPTION
from keras_transformer.visualize.heads import RULES
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
        views: `page_data` of one sentence pair, or of two to compare.
        differences: Data of the difference maps of two sentence pairs.
        names: A heading for each of ``views``.
    """
    data = {
        "views": list(views),
        "names": list(names),
        "differences": differences,
        "kinds": {kind: names._asdict() for kind, names in ATTENTION_KINDS.items()},
        "rules": RULES,
        "captions": {"leftOut": LEFT_OUT_CAPTION, "rollout": ROLLOUT_CAPTION},
    }
    return (
        _read_file("page.html")
        .replace("{title}", escape(title))
        .replace("{style}", _read_file("page.css"))
        .replace("{script}", "\n".join(_read_file(name) for name in SCRIPTS))
        .replace("{data}", _json(data))  # last: its texts may contain placeholders
    )


def inline(text: str) -> str:
    """Return HTML that shows a whole page inside another one, such as a notebook."""
    return _FRAME.format(page=escape(text))


def _json(data: Any) -> str:
    """Return JSON that is safe in a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@cache
def _read_file(name: str) -> str:
    return (files("keras_transformer.visualize") / "page" / name).read_text(encoding="utf-8")
