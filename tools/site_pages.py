"""Pages of the site that are no files in docs/: a hook of MkDocs.

README.md becomes the first page, the README files of other folders and the notebooks become pages,
each folder of the package gets an API page, and linked files of the repository are copied, so that
every link works without network.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

from tools import notebook_pages

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "keras_transformer"
PAGES = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "export/README.md": "export.md",
}
"""Documents outside docs/, and their pages."""
COPIES = "source"
"""Folder of the site for other files of the repository."""

_LINK = re.compile(r"(?P<text>\[[^\]\[]*\])\((?P<path>(?!\w+:|#)[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Add the notebooks and the API pages to the navigation."""
    added = {"Notebooks": notebook_pages.pages(), "API": api_pages()}
    config.nav = [
        *config.nav,
        *({part: [{name: page} for name, page, _ in found]} for part, found in added.items()),
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and the linked files."""
    for document, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / document).read_text("utf-8")))
    for _, page, content in [*notebook_pages.pages(), *api_pages()]:
        files.append(File.generated(config, page, content=content))
    documents = [ROOT / name for name in PAGES] + sorted((ROOT / "docs").rglob("*.md"))
    copies = {path for document in documents for path in _copied(document)}
    for path in sorted(copies):
        files.append(
            File.generated(config, f"{COPIES}/{path}", abs_src_path=str((ROOT / path).resolve()))
        )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links out of docs/ to pages of the site."""
    uri = page.file.src_uri
    document = next((name for name, target in PAGES.items() if target == uri), f"docs/{uri}")
    if uri.startswith(f"{notebook_pages.FOLDER}/"):
        document = f"{uri.removesuffix('.md')}.ipynb"
    return rewritten(markdown, document, uri)


def api_pages() -> list[tuple[str, str, str]]:
    """Return name, page and content of each API page: the package's modules, then its folders."""
    folders = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
    pages = [("keras_transformer", "api/index.md", _api([*sorted(PACKAGE.glob("*.py"))]))]
    return pages + [
        (folder.name, f"api/{folder.name}.md", _api(sorted(folder.rglob("*.py"))))
        for folder in folders
    ]


def _api(files: list[Path]) -> str:
    modules = [_module(path) for path in files if path.name != "__init__.py"]
    package = files[0].with_name("__init__.py")  # first in its folder
    about = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    parts = [f"::: {module}" for module in modules]
    return "\n\n".join([f"# {_module(package.parent)}", about, *parts, ""])


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def rewritten(markdown: str, document: str, uri: str) -> str:
    """Return the text of a page with its links as they are in the site.

    Args:
        markdown: The text.
        document: Its file in the repository.
        uri: Its page, relative to docs/.
    """

    def replaced(match: re.Match[str]) -> str:
        path = _path(document, match["path"])
        if path is None:
            return match[0]
        target = page_of(path)
        if target is None:  # a folder without a page
            return match["text"][1:-1]
        place, _, own_anchor = target.partition("#")
        anchor = match["anchor"] or (f"#{own_anchor}" if own_anchor else "")
        return f"{match['text']}({os.path.relpath(place, PurePosixPath(uri).parent)}{anchor})"

    return _LINK.sub(replaced, markdown)


def page_of(path: str) -> str | None:
    """Return the page or copy of a path of the repository; None for a folder that has none."""
    if path in PAGES:
        return PAGES[path]
    parts = PurePosixPath(path).parts
    if parts[0] == notebook_pages.FOLDER and path.endswith(".ipynb"):
        return f"{path.removesuffix('.ipynb')}.md"
    if parts[0] == "docs":
        return "/".join(parts[1:]) or "index.md"
    if parts[0] == PACKAGE.name and (path.endswith(".py") or (ROOT / path).is_dir()):
        inside = len(parts) > 2 or (len(parts) == 2 and (ROOT / path).is_dir())
        page = f"api/{parts[1]}.md" if inside else "api/index.md"
        return f"{page}#{_module(ROOT / path)}" if path.endswith(".py") else page
    return None if (ROOT / path).is_dir() else f"{COPIES}/{path}"


def _path(document: str, link: str) -> str | None:
    """Return the path of the repository that a link leads to; None where it is no file."""
    path = os.path.normpath(PurePosixPath(document).parent / link)
    return path if (ROOT / path).exists() and not path.startswith("..") else None


def _copied(document: Path) -> Iterator[str]:
    """Yield the linked files that are copied."""
    name = document.relative_to(ROOT).as_posix()
    for match in _LINK.finditer(document.read_text(encoding="utf-8")):
        path = _path(name, match["path"])
        if path and (page_of(path) or "").startswith(f"{COPIES}/"):
            yield path
