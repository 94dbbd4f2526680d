"""Sentences from figures chosen by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keras_transformer.lab.experiment import Expected, Experiment, Variant
from keras_transformer.lab.findings import sentences, verdict_counts
from keras_transformer.lab.jobs import make_jobs
from keras_transformer.lab.results import Result, Results
from keras_transformer.lab.run_statistics import outcome
from keras_transformer.lab.summaries import ExperimentSummary, Spread, pooled_spread, summarize
from tests.lab.fake_results import CORPUS, baseline, result


def make(
    tmp_path: Path, expected: Expected, base: list[Result], changed: list[Result]
) -> ExperimentSummary:
    """Return the rows of an experiment with one variant, a result for each seed."""
    it = Experiment(
        "mine",
        "mine",
        (Variant("two heads", {"model.heads": 2}, expected),),
        ("search",),
        "a",
        "b",
        "c",
        "Small corpora differ.",
    )
    results = Results(tmp_path)
    values = {False: list(base), True: list(changed)}
    for job in make_jobs([it], baseline(), 3, CORPUS):
        if queue := values[bool(job.overrides)]:
            results.add(job, queue.pop(0))
    return summarize(it, baseline(), CORPUS, Results(tmp_path))


def scored(*bleus: float) -> list[Result]:
    return [result(bleu) for bleu in bleus]


# Of 19, 20 and 21 BLEU the mean is 20 and the standard deviation 1. With three seeds each,
# a difference counts above 2 * sqrt(1/3 + 1/3) = 1.63.
@pytest.mark.parametrize(
    ("expected", "bleus", "sentence"),
    [
        ("lower", (16, 17, 18), "As expected: two heads: 17.0 ± 1.0 (−3.0 BLEU)."),
        (
            "lower",
            (18, 19, 20),
            "Not visible at this scale: two heads: 19.0 ± 1.0 (−1.0 BLEU, within the spread).",
        ),
        ("lower", (22, 23, 24), "Contrary to expectation: two heads: 23.0 ± 1.0 (+3.0 BLEU)."),
        (
            "equal",
            (18, 19, 20),
            "As expected: two heads: 19.0 ± 1.0 (−1.0 BLEU, within the spread).",
        ),
        ("equal", (16, 17, 18), "Contrary to expectation: two heads: 17.0 ± 1.0 (−3.0 BLEU)."),
        ("higher", (22, 23, 24), "As expected: two heads: 23.0 ± 1.0 (+3.0 BLEU)."),
        (
            "open",
            (16, 17, 18),
            "Where the literature leaves it open: two heads: 17.0 ± 1.0 (−3.0 BLEU).",
        ),
        (
            "fails",
            (19, 20, 21),
            "Contrary to expectation: two heads: 20.0 ± 1.0 (+0.0 BLEU, within the spread).",
        ),
    ],
)
def test_differences_against_the_spread_of_seeds(
    tmp_path: Path, expected: Expected, bleus: tuple[float, ...], sentence: str
) -> None:
    found = make(tmp_path, expected, scored(19, 20, 21), scored(*bleus))
    spread = pooled_spread([found])
    assert spread == Spread(pytest.approx(1.0), 2)  # type: ignore[arg-type]
    texts = sentences(found, spread)
    assert texts[0] == "The baseline has 20.0 ± 1.0 BLEU."
    assert texts[1] == sentence
    # The reason why a small network may differ is given only where it does.
    surprised = sentence.startswith(("Not visible", "Contrary"))
    assert texts[2:] == (["Small corpora differ."] if surprised else [])


def diverged(step: int) -> Result:
    return result(None, "diverged", (6.0, 7.0), step)


@pytest.mark.parametrize(
    ("expected", "changed", "sentence"),
    [
        (
            "fails",
            [diverged(30), diverged(12)],
            "As expected: two heads diverged at step 12, 30.",
        ),
        (
            "equal",
            [diverged(30), result(0.1, "did not learn"), result(20)],
            "Contrary to expectation: two heads diverged at step 30 (1 of 3 seeds); "
            "did not learn (1 of 3 seeds); learned (1 of 3 seeds).",
        ),
        (
            "lower",
            [result(15), diverged(8), result(15)],
            "As expected: two heads: 15.0 ± 0.0 (−5.0 BLEU), "
            "diverged at step 8 (1 of 3 seeds); learned (2 of 3 seeds).",
        ),
        ("lower", [], "Not run yet: two heads."),
    ],
)
def test_runs_that_fail_or_are_missing(
    tmp_path: Path, expected: Expected, changed: list[Result], sentence: str
) -> None:
    found = make(tmp_path, expected, scored(20, 20, 20), changed)
    assert sentences(found, Spread(0.5, 3))[1] == sentence


def test_nothing_is_compared_with_a_baseline_that_failed(tmp_path: Path) -> None:
    found = make(tmp_path, "lower", [diverged(5)], scored(20))
    texts = sentences(found, Spread(0.5, 3))
    assert texts[0] == "The baseline diverged at step 5: nothing can be compared with it."
    assert "two heads has 20.0 BLEU (baseline diverged at step 5)" in texts[1]


def test_one_seed_is_judged_by_the_assumed_spread(tmp_path: Path) -> None:
    found = make(tmp_path, "lower", scored(20), scored(17.5))
    spread = pooled_spread([found])
    assert spread.configurations == 0
    # 2 * 1.0 * sqrt(1 + 1) = 2.83, above the difference of 2.5.
    assert verdict_counts(found, spread) == "1 not visible"
    assert verdict_counts(found, Spread(0.5, 4)) == "1 as expected"


def test_steps_to_the_loss_of_the_baseline_after_half_of_its_steps(tmp_path: Path) -> None:
    # The baseline has 4.0 at step 20 of 40. The other falls from 5.0 at 20 to 3.0 at 30.
    slower = result(19, losses=(7.0, 5.0, 3.0, 2.5))
    found = make(tmp_path, "lower", scored(20), [slower])
    target = found.target_loss()
    assert target == 4.0
    assert found.mean_at_loss(found.rows["baseline"], "step", target) == 20
    assert found.mean_at_loss(found.rows["two heads"], "step", target) == 25
    assert found.mean_at_loss(found.rows["two heads"], "target_tokens", target) == 25_000
    never = make(tmp_path / "x", "lower", scored(20), [result(1, losses=(7.0, 6.0, 5.0, 4.5))])
    assert never.mean_at_loss(never.rows["two heads"], "step", target) is None


def test_scores_of_long_sentences_are_weighted_by_their_number(tmp_path: Path) -> None:
    buckets = [
        {"longest": 15, "sentences": 50, "bleu": 90.0, "length_ratio": 1.0},
        {"longest": 20, "sentences": 30, "bleu": 20.0, "length_ratio": 1.0},
        {"longest": 26, "sentences": 10, "bleu": 8.0, "length_ratio": 0.6},
    ]
    values = result(20)
    values["final"] |= {"by_length": buckets}
    row = make(tmp_path, "lower", [values], []).rows["baseline"]
    assert row.mean_above_length(15, "bleu") == pytest.approx(17.0)  # (30 * 20 + 10 * 8) / 40
    assert row.mean_above_length(15, "length_ratio") == pytest.approx(0.9)
    assert row.mean_above_length(30, "bleu") is None


@pytest.mark.parametrize(
    ("losses", "diverged_", "expected"),
    [
        ([5.0, 3.0, 2.0], False, "learned"),
        ([5.0, 3.0, 2.0], True, "diverged"),
        # Word frequencies alone have a loss of 6; 95 % of it is 5.7.
        ([6.5, 5.9, 5.8], False, "did not learn"),
        ([5.0, 3.0, 4.5], False, "collapsed"),
        ([5.0, 3.0, None], False, "collapsed"),
        ([], False, "did not learn"),
    ],
)
def test_outcome(losses: list[float | None], diverged_: bool, expected: str) -> None:
    assert outcome(losses, 6.0, diverged_) == expected


def test_results_are_read_back(tmp_path: Path) -> None:
    values: dict[str, Any] = result(20.0) | {"first_loss": float("nan"), "seconds": float("inf")}
    make(tmp_path, "lower", [values], [])
    [path] = tmp_path.glob("*.json")
    assert path.name.startswith("baseline-seed1-")
    [read] = Results(tmp_path).of_variant(next(iter(Results(tmp_path)._found.values()))["variant"])
    assert (read["first_loss"], read["seconds"], read["final"]["bleu"]) == (None, None, 20.0)
    assert len(path.read_text().splitlines()) > 30  # an entry or a point a line
