"""Sentences about the results of an experiment, generated from its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_transformer.lab.experiment import BASELINE
from keras_transformer.lab.rows import Row, Sheet, Spread

Verdict = Literal["expected", "not shown", "unexpected", "open", "missing"]

_BEGINNINGS: dict[Verdict, str] = {
    "expected": "As expected",
    "not shown": "Did not show at this scale",
    "unexpected": "Against the expectation",
    "open": "Where the literature leaves it open",
    "missing": "Not run yet",
}
"""Beginning of the sentence of each verdict, in this order."""


LONG = 15
"""Source tokens above which a sentence is longer than those of the training on short ones."""


@dataclass(frozen=True)
class Finding:
    """The result of one variant against the one that it is compared with."""

    row: Row
    verdict: Verdict
    text: str
    """Name, figures and difference."""


def findings(sheet: Sheet, spread: Spread) -> list[Finding]:
    """Return a finding for each variant but the baseline.

    Args:
        sheet: The rows of the experiment.
        spread: Spread of BLEU over seeds, against which differences are judged.
    """
    rows = [row for row in sheet.rows.values() if row.name != BASELINE]
    return [_finding(row, sheet.against(row), spread) for row in rows]


def _finding(row: Row, other: Row, spread: Spread) -> Finding:
    expected = row.variant.expected
    if not row.results:
        return Finding(row, "missing", row.name)
    if row.failed:
        sentence = f"{row.name} {row.outcome()}"
        if other.failed:  # nothing can be said about the choice
            return Finding(row, "open", f"{sentence}, as does {other.name}")
        meant: Verdict = "expected" if expected in ("fails", "lower") else "unexpected"
        return Finding(row, "open" if expected == "open" else meant, sentence)
    bleu, reference = row.mean("final", "bleu"), other.mean("final", "bleu")
    if bleu is None or reference is None or other.failed:
        figures = f"{bleu:.1f}" if bleu is not None else "no"
        reason = f"{other.name} {other.outcome()}" if other.results else f"{other.name} not run"
        kind: Verdict = "open" if other.results else "missing"
        return Finding(row, kind, f"{row.name} has {figures} BLEU ({reason})")
    difference = bleu - reference
    clear = abs(difference) > spread.threshold(len(row.results), len(other.results))
    verdict = _verdict(expected, difference, clear)
    against = "" if other.name == BASELINE else f" against {other.name}"
    kind_of = "" if clear else ", within the spread"
    text = f"{row.name}: {_with_spread(row)} ({_signed(difference)} BLEU{against}{kind_of})"
    if len(row.learned) < len(row.results):
        text += f", {row.outcome()}"
    return Finding(row, verdict, text)


def _verdict(expected: str, difference: float, clear: bool) -> Verdict:
    """Compare a difference with the expectation."""
    if expected == "open":
        return "open"
    if expected == "equal":
        return "unexpected" if clear else "expected"
    if not clear:
        # A network that was expected to fail and equals the baseline is a surprise.
        return "unexpected" if expected == "fails" else "not shown"
    fell = difference < 0
    if expected == "fails":
        return "unexpected"
    return "expected" if fell == (expected == "lower") else "unexpected"


def _signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}")


def _with_spread(row: Row) -> str:
    bleu, spread = row.mean("final", "bleu"), row.spread("final", "bleu")
    return f"{bleu:.1f}" + (f" ± {spread:.1f}" if spread is not None else "")


def sentences(sheet: Sheet, spread: Spread) -> list[str]:
    """Return sentences about the results of an experiment, one for each kind of verdict."""
    found = findings(sheet, spread)
    base = sheet.rows[BASELINE]
    result = [f"The baseline has {_with_spread(base)} BLEU."] if base.learned else []
    if base.results and not base.learned:
        result = [f"The baseline {base.outcome()}: nothing can be compared with it."]
    for verdict, beginning in _BEGINNINGS.items():
        texts = [each.text for each in found if each.verdict == verdict]
        if texts:
            result.append(f"{beginning}: {'; '.join(texts)}.")
    if "length" in sheet.experiment.plots:
        result += _on_long_sentences(sheet)
    if any(each.verdict in ("not shown", "unexpected") for each in found):
        result.append(sheet.experiment.size)
    return result


def _on_long_sentences(sheet: Sheet) -> list[str]:
    """Return a sentence about BLEU and length of the output above LONG source tokens."""
    texts = []
    for row in sheet.rows.values():
        means = [row.on_longer(LONG, name) for name in ("bleu", "length_ratio")]
        if None not in means:
            texts.append(f"{row.name} {means[0]:.1f} ({means[1]:.2f})")
    listed = ", ".join(texts)
    return [f"BLEU (and length ratio) above {LONG} source tokens: {listed}."] if texts else []


def verdict_of(sheet: Sheet, spread: Spread) -> str:
    """Return the verdicts of an experiment in a few words, such as "2 as expected"."""
    found = findings(sheet, spread)
    counts = {verdict: sum(each.verdict == verdict for each in found) for verdict in _BEGINNINGS}
    words = {
        "expected": "as expected",
        "not shown": "did not show",
        "unexpected": "against the expectation",
        "open": "open",
        "missing": "not run",
    }
    return ", ".join(f"{count} {words[verdict]}" for verdict, count in counts.items() if count)
