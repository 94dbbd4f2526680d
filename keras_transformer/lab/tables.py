"""Table of an experiment: one line for each variant, scores with their standard deviation."""

from __future__ import annotations

from dataclasses import dataclass

from keras_transformer.lab.experiment import BASELINE
from keras_transformer.lab.summaries import ExperimentSummary, VariantSummary

COLUMNS = (
    "variant",
    "BLEU",
    "chrF",
    "loss / token",
    "loss / character",
    "first loss",
    "ln V",
    "steps to target",
    "tokens to target",
    "tokens/s a core",
    "parameters",
    "length ratio",
    "seeds",
    "outcome",
)
"""Names of the columns. Losses are unsmoothed, in nats, on the dev set; the target is the loss of
the baseline after half of its steps; tokens/s a core are target tokens per second of processor
time."""


@dataclass(frozen=True)
class Cell:
    """One entry of a table."""

    text: str
    value: float | None = None
    """Sort key; None: sort by the text, an empty one last."""


def table(summary: ExperimentSummary) -> list[list[Cell]]:
    """Return a line for each variant with results, the baseline first."""
    target = summary.target_loss()
    return [_line(summary, row, target) for row in summary.rows.values() if row.results]


def _line(summary: ExperimentSummary, row: VariantSummary, target: float | None) -> list[Cell]:
    steps, tokens = (summary.mean_at_loss(row, name, target) for name in ("step", "target_tokens"))
    return [
        Cell(row.name),
        _score(row, "bleu"),
        _score(row, "chrf"),
        _number(row.mean("final", "nll_per_token"), ".3f"),
        _number(row.mean("final", "nll_per_character"), ".3f"),
        _number(row.mean("first_loss"), ".2f"),
        _number(row.mean("ln_vocabulary"), ".2f"),
        _number(steps, ",.0f"),
        _number(tokens, ",.0f"),
        _number(row.mean("tokens_per_core_second"), ",.0f"),
        _number(row.mean("parameters"), ",.0f"),
        _number(row.mean("final", "length_ratio"), ".2f"),
        _number(len(row.results), "d"),
        Cell(row.outcome()),
    ]


def _score(row: VariantSummary, name: str) -> Cell:
    return Cell(row.format_score(name), row.mean("final", name))


def _number(value: float | None, form: str) -> Cell:
    return Cell("") if value is None else Cell(format(value, form), value)


def is_baseline(line: list[Cell]) -> bool:
    """Return whether a line of `table` belongs to the baseline."""
    return line[0].text == BASELINE
