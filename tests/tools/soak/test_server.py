"""Right answers, damaged versions, and the judgement of the server's figures."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.soak.answers import Answers, Timeline
from tools.soak.load import BAD, Tally, translations
from tools.soak.server import choose_sentences, count_replies, judge, percentile, summary
from tools.soak.versions import DAMAGES, damage, place

EXPORTS = [{"a": "zero", "b": "null"}, {"a": "one", "b": "eins"}]


@pytest.fixture
def timeline() -> Timeline:
    """Version 1 from 0 to 12, version 4 from 10 on."""
    found = Timeline()
    found.placed(1, 0.0)
    found.placed(4, 10.0)
    found.gone(1, 12.0)
    return found


@pytest.mark.parametrize(
    ("start", "end", "live"),
    [(1, 2, [1]), (9, 10, [4, 1]), (11, 11.5, [4, 1]), (12.5, 13, [4]), (5, 20, [4, 1])],
)
def test_versions_are_live_between_their_times(
    timeline: Timeline, start: float, end: float, live: list[int]
) -> None:
    assert timeline.live(start, end) == live


def test_an_answer_of_a_live_version_is_right(timeline: Timeline) -> None:
    answers = Answers(timeline, EXPORTS)  # version 1 is export 1, version 4 is export 0
    assert answers.fault(["a", "b"], ["one", "eins"], 1, 2) == ""
    assert answers.fault(["b"], ["null"], 11, 11.5) == ""
    assert answers.fault(["b"], ["eins"], 11, 11.5) == ""


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        (["zero", "null"], 1, 2),  # of a version that comes later
        (["one", "eins"], 13, 14),  # of a version that is gone
        (["one", "null"], 11, 11.5),  # of two versions
        (["eins", "one"], 1, 2),  # in another order
        (["one"], 1, 2),
        (["one", "eins", ""], 1, 2),
    ],
)
def test_any_other_answer_is_wrong(
    timeline: Timeline, given: list[str], start: float, end: float
) -> None:
    assert "live versions" in Answers(timeline, EXPORTS).fault(["a", "b"], given, start, end)


def test_replies_in_both_forms_are_read() -> None:
    rows = {"predictions": [{"translation": "x", "score": 0}, {"translation": "y", "score": 1}]}
    assert translations(rows) == ["x", "y"]
    assert translations({"outputs": {"translation": ["x"], "score": [0]}}) == ["x"]


def version(folder: Path) -> Path:
    (folder / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/variables.index", "export.json"):
        (folder / name).write_bytes(b"x" * 1000)
    (folder / "variables" / "variables.data-00000-of-00001").write_bytes(b"y" * 1000)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_version_has_one_file_less_or_shorter(tmp_path: Path, kind: str) -> None:
    source = version(tmp_path / "1")
    place(source, tmp_path / "2", lambda folder: damage(folder, kind, random.Random(kind)))
    whole, damaged = contents(source), contents(tmp_path / "2")
    [name] = [name for name in whole if damaged.get(name) != whole[name]]
    assert name in ("saved_model.pb", *(n for n in whole if n.startswith("variables/")))
    assert len(damaged.get(name, b"")) <= 900
    assert (tmp_path / "2" / "saved_model.pb").exists()  # or a server would not even try


def test_a_version_appears_complete(tmp_path: Path) -> None:
    source = version(tmp_path / "1")

    def look(folder: Path) -> None:
        assert folder.name.startswith(".")
        assert not (tmp_path / "2").exists()

    place(source, tmp_path / "2", look)
    assert contents(tmp_path / "2") == contents(source)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


GOOD = {
    "seconds": 600,
    "replies": {"200": 9, "400": 3, "503": 2},
    "outcomes": {"answered": 9},
    "swaps": 19,
    "growth": 0.05,
}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"growth": -0.2}, ""),
        ({"growth": 0.051}, "memory: expected growth of at most 5%, got 0.051"),
        ({"growth": None}, "memory"),
        ({"growth": 0.5, "seconds": 30}, ""),  # too short to judge
        ({"replies": {"200": 9, "500": 1}}, "1 replies with status 500"),
        ({"replies": {"504": 2}}, "2 replies with status 504"),
        ({"outcomes": {"bad refused": 5}}, "no request was answered"),
        ({"swaps": 0}, "no version was replaced"),
    ],
)
def test_figures_are_judged(changes: dict[str, object], fault: str) -> None:
    faults = judge(GOOD | changes)
    assert [fault in found for found in faults] == [True] * bool(fault)


def test_memory_is_compared_between_a_fifth_of_the_time_and_the_end() -> None:
    memory = [(float(time), 100 + time // 60) for time in range(600)]
    memory[500] = (500.0, 900)  # a peak in between does not count
    figures = summary(Tally(milliseconds=[1.0, 2.0, 3.0, 4.0]), memory, 600)
    assert figures["growth"] == round(109 / 102 - 1, 4)  # near 120 s 101 or 102; 109 at the end
    assert (figures["p50 ms"], figures["p99 ms"]) == (2.0, 4.0)


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile(list(map(float, range(1, 101))), 99) == 99.0
    assert percentile([], 50) is None


def test_replies_are_counted_from_the_servers_metrics() -> None:
    metrics = (
        "# TYPE keras_transformer_serve_replies_total counter\n"
        'keras_transformer_serve_replies_total{code="200"} 41.0\n'
        'keras_transformer_serve_replies_total{code="500"} 1.0\n'
    )
    assert count_replies(metrics) == {"200": 41, "500": 1}


def test_sentences_differ_in_length_and_have_one_answer_each() -> None:
    found = choose_sentences(random.Random(1))
    assert len(set(found)) == len(found) == 54
    assert max(map(len, found)) > 100
    assert choose_sentences(random.Random(1)) == found


def test_a_fault_is_counted_and_kept() -> None:
    tally = Tally()
    count: Callable[..., None] = tally.count
    count("answered")
    count("wrong", "x" * 9_000)
    assert tally.counts == {"answered": 1, "wrong": 1}
    assert len(tally.faults) == 1
    assert len(tally.faults[0]) == 600


def test_bad_requests_have_names_of_their_own() -> None:
    assert len({bad.name for bad in BAD}) == len(BAD)
