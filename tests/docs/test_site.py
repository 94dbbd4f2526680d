"""The site of the documents builds without warnings and needs no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, RUN

pytestmark = pytest.mark.slow

# Elements that make a browser load something; links of the text may lead anywhere.
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"?(https?://[^\" >]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", path],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return path


def test_every_document_has_a_page(site: Path) -> None:
    for document in RUN[1:]:
        assert (site / f"{document.stem}.html").is_file()
    assert "Keras Transformer" in (site / "index.html").read_text(encoding="utf-8")


def test_api_pages_have_the_docstrings(site: Path) -> None:
    page = (site / "api" / "model.html").read_text(encoding="utf-8")

    assert 'id="keras_transformer.model.attention.scaled_dot_product_attention"' in page


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert len(pages) > len(RUN)
    for page in pages:
        assert _LOADED.findall(page.read_text(encoding="utf-8")) == [], page.name
