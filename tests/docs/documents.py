"""Documents of the project, taken apart: code blocks, commands, links, headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""Documents whose commands are run."""
TESTED_ELSEWHERE = {
    "library.md": "tests/test_library.py",
    "serving-operations.md": "tests/export/test_documents.py",
}
"""Documents whose blocks another test runs or reads."""
ALL = [
    *RUN,
    *(ROOT / name for name in ("docs/lab/index.md", "benchmarks/README.md", "export/README.md")),
]

_BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]*?) -->\n+)?^(?P<indent> *)```(?P<language>\w*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A code block of a document."""

    document: Path
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is not run; None: it is."""

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> list[Block]:
    """Return the code blocks of a document."""
    content = document.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(content):
        line = content.count("\n", 0, match.start("language")) + 1
        text = re.sub(rf"(?m)^{match['indent']}", "", match["text"])
        found.append(Block(document, line, match["language"], text, match["reason"]))
    return found


def prose(document: Path) -> str:
    """Return a document without its code blocks."""
    return _BLOCK.sub("", document.read_text(encoding="utf-8"))


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield the entry point and the words after it of each command of the package."""
    for line in block.text.replace("\\\n", " ").splitlines():
        match = re.search(r"python -m keras_transformer\.(\w+)\b(.*)", line)
        if match:
            words = shlex.split(match[2], comments=True)
            ends = [place for place, word in enumerate(words) if word in ("|", ">", "&")]
            yield match[1], words[: min(ends, default=len(words))]


def links(document: Path) -> list[str]:
    """Return the links of a document to files and headings of the project."""
    return _LINK.findall(prose(document))


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and MkDocs name them."""
    headings = re.findall(r"(?m)^#+ (.+)$", prose(document))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }
