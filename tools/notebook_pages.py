"""Notebooks as pages of the site: Markdown with code, printed text and pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "notebooks"

_BADGE = re.compile(r"\[!\[(?P<text>[^\]]*)\]\([^)]*\)\](?=\()")
_FORMULA = re.compile(r"\$\$(?P<formula>.+?)\$\$", re.DOTALL)
_FENCE = "````"  # longer than those in the text of a notebook


def notebook_files() -> list[Path]:
    """Return the executed notebooks, in their order."""
    return sorted((ROOT / FOLDER).glob("[0-9]_*.ipynb"))


def pages() -> list[tuple[str, str, str]]:
    """Return title, page and content of each notebook."""
    found = []
    for path in notebook_files():
        content = page(json.loads(path.read_text(encoding="utf-8")))
        title = re.search(r"(?m)^# (.+)$", content)
        found.append((title[1] if title else path.stem, f"{FOLDER}/{path.stem}.md", content))
    return found


def page(notebook: dict[str, Any]) -> str:
    """Return a notebook as Markdown.

    Pictures become part of the page. The badge of Colab becomes a plain link, so that the page
    loads nothing from elsewhere; formulas stay as they are typed, as no script draws them.

    Args:
        notebook: The contents of an .ipynb file, format 4.
    """
    return "\n\n".join(part for cell in notebook["cells"] for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        yield _markdown(source)
    elif source:
        yield _block(source, "python")
        for output in cell.get("outputs", []):
            yield from _output(output)


def _markdown(source: str) -> str:
    source = _BADGE.sub(r"[\g<text>]", source)
    source = source.replace("<details>", "<details markdown>")
    return _FORMULA.sub(lambda match: _block(match["formula"].strip(), "text"), source)


def _output(output: dict[str, Any]) -> Iterator[str]:
    if output["output_type"] == "stream":
        yield _block("".join(output["text"]), "text")
    elif output["output_type"] == "error":
        yield _block(f"{output['ename']}: {output['evalue']}", "text")
    else:
        data = {kind: "".join(value) for kind, value in output["data"].items()}
        if "image/png" in data:
            image = data["image/png"].replace("\n", "")
            yield f"![Figure](data:image/png;base64,{image})"
        elif "text/html" in data:
            yield f"<div>\n{data['text/html']}\n</div>"
        elif "text/plain" in data:
            yield _block(data["text/plain"], "text")


def _block(text: str, language: str) -> str:
    return f"{_FENCE}{language}\n{text.rstrip()}\n{_FENCE}"
