"""The document of the laboratory's results is the one of the results beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import lab_document

pytest.importorskip("matplotlib")


@pytest.mark.slow
def test_the_document_is_that_of_the_results(tmp_path: Path) -> None:
    lab_document.write(lab_document.FOLDER / "results", tmp_path)

    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in lab_document.FOLDER.iterdir()} - {"results"}
    found = (lab_document.FOLDER / "index.md").read_text(encoding="utf-8")
    assert (tmp_path / "index.md").read_text(encoding="utf-8") == found
