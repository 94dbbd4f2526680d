from __future__ import annotations

import json

import pytest

from keras_transformer.config import DataConfig
from keras_transformer.data import pairs as pairs_module
from keras_transformer.data.cleaning import CleaningReport, Overlap, clean
from keras_transformer.data.pairs import FEW_COLUMNS, Pair

CORPUS = [
    Pair(1, "a cat", "eine Katze"),
    Pair(2, "", "  "),
    Pair(3, "a dog", "\u200b\u3000"),
    Pair(4, "\t", "ein Hund"),
    Pair(5, "a cat", "eine Katze"),
    Pair(6, "OK", " OK "),
    Pair(7, "x\u2028y\x00z", "a\tb"),
    Pair(8, "alone", "", FEW_COLUMNS),
    Pair(9, "a cat", "ein Kater"),
    Pair(10, "no\u00a0break", "kein\u3000Umbruch"),
]


def cleaned(**options: bool) -> tuple[list[int], CleaningReport]:
    report = CleaningReport()
    kept = list(clean(CORPUS, DataConfig(**options), report))  # type: ignore[arg-type]
    return [pair.line for pair in kept], report


def test_only_blank_and_incomplete_pairs_are_dropped_by_default() -> None:
    lines, report = cleaned()
    assert lines == [1, 5, 6, 7, 9, 10]
    assert report.read == 10
    assert report.kept == 6
    assert report.dropped == {"blank on both sides": 1, "blank on one side": 2, FEW_COLUMNS: 1}
    assert report.noted == {
        "seen before": 1,
        "with identical sides": 1,
        "with control characters inside": 1,
    }
    assert report.read == report.kept + sum(report.dropped.values())


def test_options_drop_duplicates_and_identical_sides() -> None:
    lines, report = cleaned(drop_duplicates=True, drop_identical=True)
    assert lines == [1, 7, 9, 10]
    assert report.dropped["seen before"] == 1
    assert report.dropped["with identical sides"] == 1
    assert set(report.noted) == {"with control characters inside"}
    assert report.examples["seen before"] == [5]


def test_texts_become_one_trimmed_line() -> None:
    report = CleaningReport()
    pairs = {pair.line: pair for pair in clean(CORPUS, DataConfig(), report)}
    assert pairs[7] == Pair(7, "x y z", "a b")
    assert pairs[6] == Pair(6, "OK", "OK")
    # The tokenizer normalizes other spaces.
    assert pairs[10].source == "no\u00a0break"
    assert report.examples["with control characters inside"] == [7]


def test_report_for_people() -> None:
    _, report = cleaned()
    assert report.lines() == [
        "read 10 pairs, kept 6",
        "dropped 1 blank on both sides (line 2)",
        "dropped 2 blank on one side (lines 3, 4)",
        "dropped 1 with fewer than two columns (line 8)",
        "kept 1 seen before (line 5)",
        "kept 1 with identical sides (line 6)",
        "kept 1 with control characters inside (line 7)",
    ]


def test_report_names_the_first_lines_only() -> None:
    report = CleaningReport()
    assert list(clean((Pair(n, "", "") for n in range(1, 1001)), DataConfig(), report)) == []
    assert report.lines()[1] == "dropped 1000 blank on both sides (lines 1, 2, 3, 4, 5, ...)"


def test_report_is_json() -> None:
    _, report = cleaned()
    values = json.loads(json.dumps(report.to_dict()))
    assert values["read"] == 10
    assert values["dropped"][FEW_COLUMNS] == 1
    assert values["noted"]["seen before"] == 1
    assert values["first_lines"]["blank on one side"] == [3, 4]


def test_cleaning_streams() -> None:
    def endless():
        number = 0
        while True:
            number += 1
            yield Pair(number, f"s{number}", f"t{number}")

    stream = clean(endless(), DataConfig(), CleaningReport())
    assert [next(stream).line for _ in range(3)] == [1, 2, 3]


def test_overlap_counts_dev_sources_in_the_training_text() -> None:
    train = [Pair(1, "a", "x"), Pair(2, "b ", "y"), Pair(3, "b", "y")]
    overlap = Overlap(iter([Pair(1, "b", "other"), Pair(2, "b", "y"), Pair(3, "c", "z")]))
    assert overlap.count == 0
    assert list(overlap.watch(iter(train))) == train
    assert overlap.count == 2
    nothing = Overlap([])
    assert list(nothing.watch(train)) == train
    assert nothing.count == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_block_size_changes_nothing(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    whole = [cleaned(), cleaned(drop_duplicates=True, drop_identical=True)]
    monkeypatch.setattr(pairs_module, "BLOCK_SIZE", size)
    assert [cleaned(), cleaned(drop_duplicates=True, drop_identical=True)] == whole


@pytest.mark.parametrize("text", ["\u200b", "\u200e \u200f", "\u3000", "\ufeff\u00ad"])
def test_invisible_text_is_blank(text: str) -> None:
    report = CleaningReport()
    assert list(clean([Pair(1, text, "x"), Pair(2, "x", text)], DataConfig(), report)) == []
    assert report.dropped == {"blank on one side": 2}
