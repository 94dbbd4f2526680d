"""docs/questions.md: every answer is shown somewhere, in a section that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

PAGE = ROOT / "docs" / "questions.md"
NOTEBOOK = re.compile(r"\[notebook \d\]\((?P<path>[^)]+)\.ipynb\), \*(?P<section>[^*]+)\*")
LABORATORY = re.compile(r"laboratory (?P<names>`[\w-]+`(?:, `[\w-]+`)*)")


def rows() -> list[list[str]]:
    """Return question, answer and places of each row."""
    text = PAGE.read_text(encoding="utf-8").partition("## Notebooks")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] != "question"]


def headings(script: Path) -> set[str]:
    return set(re.findall(r"(?m)^# #+ (.+)$", script.read_text(encoding="utf-8")))


def test_every_question_has_an_answer_and_a_place() -> None:
    assert len(rows()) > 45
    for row in rows():
        assert len(row) == 3, row
        question, answer, shown = row
        assert question.endswith("?"), question
        assert answer.endswith("."), question
        assert re.search(r"\[[^\]]+\]\(|laboratory `", shown), question


@pytest.mark.parametrize("match", list(NOTEBOOK.finditer(PAGE.read_text(encoding="utf-8"))))
def test_sections_of_notebooks_exist(match: re.Match[str]) -> None:
    script = (PAGE.parent / f"{match['path']}.py").resolve()

    assert match["section"] in headings(script), f"{script.name}: {match['section']}"


def test_experiments_exist() -> None:
    experiments = pytest.importorskip("keras_transformer.lab.experiments")
    known = set(experiments.TABLE.by_name)
    text = PAGE.read_text(encoding="utf-8")
    named = {
        name
        for match in LABORATORY.finditer(text)
        for name in re.findall(r"[\w-]+", match["names"])
    }

    assert len(named) > 10
    assert named <= known
