"""The notebooks: as their scripts, with outputs, and run from the wheel outside the checkout."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import nbformat
import pytest

from tests.support.wheel import build_wheel, call, install
from tools import notebooks

NAMES = notebooks.names()
SECONDS = 120
"""Most processor time of a notebook with quick sizes, kernel and programs that it starts."""
EXERCISES = 3
MAX_BYTES = 1_000_000


def source_of(name: str) -> str:
    return (notebooks.FOLDER / f"{name}.py").read_text("utf-8")


def setup_of(name: str) -> str:
    """Return the two cells that begin every notebook, without minutes and extras."""
    cells = [cell for cell in notebooks.from_script(name).cells if cell.cell_type == "code"]
    assert [cell.metadata.tags for cell in cells[:2]] == [["skip-execution"], ["setup"]]
    text = "\n".join(cell.source for cell in cells[:2])
    return re.sub(r"MINUTES = \d+|translate\[[a-z,]+\]", "…", text)


def test_there_are_notebooks() -> None:
    assert len(NAMES) == 6


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_equals_its_script_and_has_outputs(name: str) -> None:
    assert notebooks.differences(name) == [], f"run {notebooks.COMMAND} {name}"
    path = notebooks.FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < MAX_BYTES
    cells = nbformat.read(path, as_version=4).cells
    assert any(
        "image/png" in one.get("data", {}) for cell in cells for one in cell.get("outputs", [])
    )
    assert cells[0].source.startswith(f"{notebooks.badge(name)}\n\n# {name[0]} ")


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_begins_like_the_others_and_ends_with_exercises(name: str) -> None:
    assert setup_of(name) == setup_of(NAMES[0])
    text = source_of(name)
    assert text.count("<details>") == text.count("</details>") >= EXERCISES


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the package as a wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    python = install(build_wheel(folder), folder / "environment", extras=True) / "python"
    where = call(
        python, "-c", "import keras_transformer; print(keras_transformer.__file__)", cwd=folder
    )
    assert where.stdout.startswith(str(folder))
    return python


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_outside_the_checkout(name: str, python: Path, tmp_path: Path) -> None:
    before = processor_seconds()
    variables = {"NOTEBOOK_QUICK": "1", "PYTHONPATH": ""}
    notebooks.execute(notebooks.from_script(name), tmp_path, python, variables)
    assert processor_seconds() - before < SECONDS


def processor_seconds() -> float:
    """Return the time that processes started here have computed, whatever else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
