"""Sentences that are scored, and blank ones that are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.evaluation_set import EvaluationSet

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_lines(name: str, *lines: str) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write_lines


def test_rows_without_a_reference_are_dropped_and_counted(write: Write) -> None:
    spec = write(
        "few.tsv", "Hi.\t你好。", "no tab", "Bye.\t", "\t再见。", "", "Yes.\t\u200b", "No.\t不。"
    )
    held_out = EvaluationSet.from_corpus(str(spec), "en", "zh")
    assert (held_out.sources, held_out.references) == (["Hi.", "No."], [["你好。", "不。"]])
    assert held_out.report.dropped == {
        "with fewer than two columns": 1,
        "blank on one side": 3,
        "blank on both sides": 1,
    }
    assert held_out.report.dropped_lines()[1] == "dropped 3 blank on one side (lines 3, 4, 6)"


def test_translations_for_each_row_or_each_sentence(write: Write) -> None:
    """Of 4 rows, one is blank and one repeats a source: 2 sentences."""
    spec = write("test.tsv", "Hi.\t你好。", "Bye.\t", "Hi.\t嗨。", "No.\t不。")
    held_out = EvaluationSet.from_corpus(str(spec), "en", "zh")
    assert held_out.select(["1", "2", "3", "4"]) == ["1", "4"]
    assert held_out.select(["1", "2"]) == ["1", "2"]
    with pytest.raises(EvaluationError, match=r"have 3 lines, the reference has 4, with 2 diff"):
        held_out.select(["1", "2", "3"])


def test_blank_lines_of_files_are_translated_but_not_scored(write: Write) -> None:
    """Saved translations keep the lines of the source."""
    source = write("a.en", "One.", "Two.", "", "Four.", "")
    reference = write("a.de", "Eins.", " \u3000", "Drei.", "Vier.", "")
    held_out = EvaluationSet.from_files(source, [reference])
    assert held_out.sources == ["One.", "Two.", "", "Four.", ""]
    assert held_out.references == [["Eins.", "Vier."]]
    assert held_out.select(["a", "b", "c", "d", "e"]) == ["a", "d"]
    assert held_out.report.dropped == {"blank on one side": 2, "blank on both sides": 1}
    assert held_out.report.kept == 2


def test_a_blank_reference_beside_another_is_none(write: Write) -> None:
    first, second = write("1.de", "", "Zwei.", ""), write("2.de", "Ein.", "Zwo.", "\t")
    held_out = EvaluationSet.from_files(None, [first, second])
    assert held_out.references == [[None, "Zwei."], ["Ein.", "Zwo."]]
    assert held_out.select(["a", "b", "c"]) == ["a", "b"]
    assert held_out.report.dropped == {
        "blank beside another reference": 1,
        "with a blank reference": 1,
    }


def test_nothing_left_is_refused_with_the_reasons(write: Write) -> None:
    with pytest.raises(EvaluationError, match=r"no sentences .* dropped 1 blank on one side"):
        EvaluationSet.from_files(write("a.en", "One."), [write("a.de", "")])
    with pytest.raises(EvaluationError, match=r"no sentences .* with fewer than two columns"):
        EvaluationSet.from_corpus(str(write("b.tsv", "one")), "en", "de")
