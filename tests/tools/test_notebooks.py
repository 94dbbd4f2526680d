"""The generator of the notebooks: what stays of an output, what is refused, what is compared."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest

from tools import notebooks

OUTPUTS = [
    ("print('/tmp/x')", "path or an address"),
    ("print(object())", "path or an address"),
    ("import warnings; warnings.warn('Glyph 25105 missing')", "a warning"),
    ("1 / 0", "ZeroDivisionError"),
]


def script(folder: Path, monkeypatch: pytest.MonkeyPatch, *cells: str) -> None:
    """Write notebook 1_a into a folder that replaces the project's."""
    monkeypatch.setattr(notebooks, "FOLDER", folder)
    text = "\n\n".join(["# %% [markdown]\n# # Title", *(f"# %%\n{cell}" for cell in cells)])
    (folder / "1_a.py").write_text(text + "\n", encoding="utf-8")


def test_address_in_colab_or_of_the_file() -> None:
    home = "https://github.com/owner/project"
    assert notebooks.colab_address(home, "1_a") == (
        "https://colab.research.google.com/github/owner/project/blob/main/notebooks/1_a.ipynb"
    )
    assert notebooks.colab_address("https://example.org/p/", "1_a") == (
        "https://example.org/p/blob/main/notebooks/1_a.ipynb"
    )


def test_a_changed_cell_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, monkeypatch, "a = 1")
    assert notebooks.differences("1_a") == ["1_a.ipynb: missing"]
    nbformat.write(notebooks.from_script("1_a"), tmp_path / "1_a.ipynb")
    assert notebooks.differences("1_a") == []
    script(tmp_path, monkeypatch, "a = 2")
    assert notebooks.differences("1_a") == ["1_a.ipynb: cell 1 differs from the script"]
    script(tmp_path, monkeypatch, "a = 1", "b = 2")
    assert notebooks.differences("1_a") == ["1_a.ipynb: 2 cells, the script has 3"]


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        notebooks.main(["7_none"])
    assert "expected some of 1_attention_from_scratch" in capsys.readouterr().err


@pytest.mark.slow
def test_outputs_are_the_same_in_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(
        tmp_path,
        monkeypatch,
        "import os, sys\nsys.stderr.write('progress')\nprint(os.environ['NOTEBOOK_QUICK'])\n6 * 7",
    )
    notebooks.build("1_a", quick=True)
    first = (tmp_path / "1_a.ipynb").read_bytes()
    notebooks.build("1_a", quick=True)
    assert (tmp_path / "1_a.ipynb").read_bytes() == first
    title, cell = nbformat.reads(first.decode(), as_version=4).cells
    assert title.source.startswith("[![Open in Colab](")
    printed, value = cell.outputs
    assert (printed.name, printed.text) == ("stdout", "1\n")
    assert value.data["text/plain"] == "42"
    assert cell.execution_count == value.execution_count == 1


@pytest.mark.slow
@pytest.mark.parametrize(("source", "message"), OUTPUTS)
def test_a_notebook_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    script(tmp_path, monkeypatch, source)
    with pytest.raises(notebooks.NotebookError, match=message):
        notebooks.execute(notebooks.from_script("1_a"), tmp_path, Path(sys.executable), {})
