"""Sentences about the results of an experiment, generated from the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_transformer.lab.experiment import BASELINE, Expected
from keras_transformer.lab.summaries import ExperimentSummary, Spread, VariantSummary

Verdict = Literal["expected", "not shown", "unexpected", "open", "missing"]

_OPENINGS: dict[Verdict, str] = {
    "expected": "As expected",
    "not shown": "Not visible at this scale",
    "unexpected": "Contrary to expectation",
    "open": "Where the literature leaves it open",
    "missing": "Not run yet",
}
"""First words of the sentence of each verdict, in the order of the report."""

LONG_SOURCE = 15
"""Limit of source tokens in the training on short sentences; longer ones are unseen lengths."""


@dataclass(frozen=True)
class Finding:
    """The result of one variant, compared with another."""

    row: VariantSummary
    verdict: Verdict
    text: str
    """Name, BLEU and difference."""


def findings(summary: ExperimentSummary, spread: Spread) -> list[Finding]:
    """Return a finding for each variant except the baseline.

    Args:
        summary: The results of the experiment.
        spread: Standard deviation of BLEU over seeds, which decides what differences count.
    """
    rows = [row for row in summary.rows.values() if row.name != BASELINE]
    return [_finding(row, summary.against(row), spread) for row in rows]


def _finding(row: VariantSummary, other: VariantSummary, spread: Spread) -> Finding:
    expected = row.variant.expected
    if not row.results:
        return Finding(row, "missing", row.name)
    if row.failed:
        sentence = f"{row.name} {row.outcome()}"
        if other.failed:  # this says nothing about the choice
            return Finding(row, "open", f"{sentence}, as does {other.name}")
        verdict: Verdict = "expected" if expected in ("fails", "lower") else "unexpected"
        return Finding(row, "open" if expected == "open" else verdict, sentence)
    bleu, reference = row.mean("final", "bleu"), other.mean("final", "bleu")
    if bleu is None or reference is None or other.failed:
        number = f"{bleu:.1f}" if bleu is not None else "no"
        reason = f"{other.name} {other.outcome()}" if other.results else f"{other.name} not run"
        verdict = "open" if other.results else "missing"
        return Finding(row, verdict, f"{row.name} has {number} BLEU ({reason})")
    difference = bleu - reference
    clear = abs(difference) > spread.threshold(len(row.results), len(other.results))
    verdict = _verdict(expected, difference, clear)
    against = "" if other.name == BASELINE else f" against {other.name}"
    within = "" if clear else ", within the spread"
    text = f"{row.name}: {row.format_score('bleu')} ({_signed(difference)} BLEU{against}{within})"
    if len(row.learned) < len(row.results):
        text += f", {row.outcome()}"
    return Finding(row, verdict, text)


def _verdict(expected: Expected, difference: float, clear: bool) -> Verdict:
    """Compare a BLEU difference with the expected one.

    Args:
        expected: An `Expected`.
        difference: BLEU minus that of the variant compared with.
        clear: Whether the difference exceeds the spread.
    """
    if expected == "open":
        return "open"
    if expected == "equal":
        return "unexpected" if clear else "expected"
    if expected == "fails":  # it has a score, so it did not fail
        return "unexpected"
    if not clear:
        return "not shown"
    fell = difference < 0
    return "expected" if fell == (expected == "lower") else "unexpected"


def _signed(value: float) -> str:
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}")


def sentences(summary: ExperimentSummary, spread: Spread) -> list[str]:
    """Return sentences about the results of an experiment, one for each kind of verdict."""
    found = findings(summary, spread)
    base = summary.rows[BASELINE]
    result = [f"The baseline has {base.format_score('bleu')} BLEU."] if base.learned else []
    if base.results and not base.learned:
        result = [f"The baseline {base.outcome()}: nothing can be compared with it."]
    for verdict, beginning in _OPENINGS.items():
        texts = [each.text for each in found if each.verdict == verdict]
        if texts:
            result.append(f"{beginning}: {'; '.join(texts)}.")
    if "length" in summary.experiment.plots:
        result += _on_long_sentences(summary)
    if any(each.verdict in ("not shown", "unexpected") for each in found):
        result.append(summary.experiment.size)
    return result


def _on_long_sentences(summary: ExperimentSummary) -> list[str]:
    """Return a sentence about BLEU and length ratio above LONG_SOURCE source tokens."""
    texts = []
    for row in summary.rows.values():
        means = [row.mean_above_length(LONG_SOURCE, name) for name in ("bleu", "length_ratio")]
        if None not in means:
            texts.append(f"{row.name} {means[0]:.1f} ({means[1]:.2f})")
    listed = ", ".join(texts)
    return (
        [f"BLEU (and length ratio) above {LONG_SOURCE} source tokens: {listed}."] if texts else []
    )


def verdict_counts(summary: ExperimentSummary, spread: Spread) -> str:
    """Return the number of variants with each verdict, such as "2 as expected, 1 open"."""
    found = findings(summary, spread)
    counts = {verdict: sum(each.verdict == verdict for each in found) for verdict in _OPENINGS}
    words = {
        "expected": "as expected",
        "not shown": "not visible",
        "unexpected": "contrary to expectation",
        "open": "open",
        "missing": "not run",
    }
    return ", ".join(f"{count} {words[verdict]}" for verdict, count in counts.items() if count)
