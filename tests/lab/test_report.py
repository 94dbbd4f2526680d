"""The report and the document, from results made up by hand."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.config import ConfigError, from_dict
from keras_transformer.lab import record
from keras_transformer.lab.experiments import TABLE
from keras_transformer.lab.report import Report
from keras_transformer.lab.results import Results
from tests.lab.fake_results import CORPUS, baseline, fill
from tests.server.page.conftest import browser
from tools import lab_document

__all__ = ["browser"]
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="no matplotlib")
NAMES = ("heads", "norm-order", "beam", "vocabulary", "no-residual", "table-3")
EXPERIMENTS = [TABLE.by_name[name] for name in NAMES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fill a folder of results, and write the report."""
    folder = tmp_path_factory.mktemp("lab")
    record.write(folder / "results", baseline(), CORPUS)
    results = Results(folder / "results")
    fill(results, EXPERIMENTS, 2)
    Report.of(TABLE.experiments, baseline(), CORPUS, results).write(folder)
    return folder


@needs_matplotlib
def test_a_report_without_results_is_made_too(tmp_path: Path) -> None:
    page = Report.of(TABLE.experiments, baseline(), CORPUS, Results(tmp_path)).page()
    assert "0 results" in page


@needs_matplotlib
def test_an_experiment_that_the_baseline_excludes_is_left_out(tmp_path: Path) -> None:
    """A quarter of the batch has twice the factor, more than is valid."""
    base = from_dict({"train": {"learning_rate_factor": 9_000.0}}, baseline())
    it = TABLE.by_name["batch-size"]
    with pytest.raises(ConfigError):
        it.variants_of(base)
    assert Report.of([it], base, CORPUS, Results(tmp_path)).summaries == []


@pytest.mark.slow
@needs_matplotlib
def test_the_page_needs_nothing_from_outside(folder: Path) -> None:
    page = (folder / "report.html").read_text("utf-8")
    addresses = set(re.findall(r'(?:src|href)="([^"]*)"', page))
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "@import" not in page
    assert "url(http" not in page
    for name in NAMES:
        assert (folder / "pictures" / f"{name}.png").stat().st_size > 10_000


@pytest.mark.slow
@needs_matplotlib
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_sorts_and_has_no_errors(folder: Path, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: None)
    page.goto((folder / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    rows = "#heads tbody tr"
    order = f"[...document.querySelectorAll('{rows}')].map((row) => row.cells[0].textContent)"
    scores = (
        f"[...document.querySelectorAll('{rows}')].map((row) => row.cells[1].dataset.value)"
        ".filter(Boolean).map(Number)"
    )
    before = page.evaluate(order)
    button = page.locator("#heads th button", has_text="BLEU").first
    button.click()
    rising = page.evaluate(scores)
    assert rising == sorted(rising)
    button.click()
    assert page.evaluate(scores) == rising[::-1]
    assert sorted(page.evaluate(order)) == sorted(before)
    pictures = page.locator("figure svg")
    assert pictures.count() > 20
    for index in range(3):
        assert pictures.nth(index).bounding_box()["height"] > 100
    assert errors == []
    page.close()


@pytest.mark.slow
@needs_matplotlib
def test_the_document_has_the_tables_and_figures(folder: Path, tmp_path: Path) -> None:
    assert lab_document.main(["--results", str(folder / "results"), "--to", str(tmp_path)]) == 0
    text = (tmp_path / "index.md").read_text("utf-8")
    for name in NAMES:
        assert f"\n## {name}\n" in text
        assert f"]({name}.png)" in text
        assert (tmp_path / f"{name}.png").exists()
    assert "| baseline | 2" in text
    assert "/" + str(folder.name) not in text
