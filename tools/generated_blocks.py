"""Generated blocks of a document, each between two comments that name it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BLOCK = re.compile(
    r"<!-- begin: (?P<name>[\w-]+) -->\n(?P<content>.*?)<!-- end: (?P=name) -->", re.DOTALL
)


def block_names(text: str) -> list[str]:
    """Return the names of a document's blocks, in order."""
    return [match["name"] for match in _BLOCK.finditer(text)]


def replace_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """Return a document with the contents of its blocks replaced.

    Args:
        text: The document. A block stands between ``<!-- begin: NAME -->`` and
            ``<!-- end: NAME -->``, each on a line of its own.
        blocks: The content of each block by name, in Markdown.

    Raises:
        ValueError: The document has other blocks.
    """
    found = block_names(text)
    if sorted(found) != sorted(blocks):
        raise ValueError(
            f"blocks: expected each of {', '.join(sorted(blocks))} once in the document, "
            f"got {', '.join(sorted(found)) or 'none'}"
        )

    def filled(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- begin: {name} -->\n\n{blocks[name].strip()}\n\n<!-- end: {name} -->"

    return _BLOCK.sub(filled, text)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; a ``|`` in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")
