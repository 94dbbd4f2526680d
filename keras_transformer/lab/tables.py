"""Table of an experiment: one line for each variant, numbers with their spread."""

from __future__ import annotations

from dataclasses import dataclass

from keras_transformer.lab.experiment import BASELINE
from keras_transformer.lab.rows import Row, Sheet

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
    "tokens/s",
    "parameters",
    "length ratio",
    "seeds",
    "outcome",
)
"""Names of the columns. Losses are unsmoothed, in nats, on the dev set; the target is the loss of
the baseline after half of its steps."""


@dataclass(frozen=True)
class Cell:
    """One entry of a table."""

    text: str
    value: float | None = None
    """For sorting; None sorts by the text, or last where it is empty."""


def table(sheet: Sheet) -> list[list[Cell]]:
    """Return a line for each variant with results, the baseline first."""
    target = sheet.target_loss()
    return [_line(sheet, row, target) for row in sheet.rows.values() if row.results]


def _line(sheet: Sheet, row: Row, target: float | None) -> list[Cell]:
    steps, tokens = (sheet.reach(row, name, target) for name in ("step", "target_tokens"))
    return [
        Cell(row.name),
        _with_spread(row, "bleu"),
        _with_spread(row, "chrf"),
        _number(row.mean("final", "nll_per_token"), ".3f"),
        _number(row.mean("final", "nll_per_character"), ".3f"),
        _number(row.mean("first_loss"), ".2f"),
        _number(row.mean("ln_vocabulary"), ".2f"),
        _number(steps, ",.0f"),
        _number(tokens, ",.0f"),
        _number(row.mean("tokens_per_second"), ",.0f"),
        _number(row.mean("parameters"), ",.0f"),
        _number(row.mean("final", "length_ratio"), ".2f"),
        _number(len(row.results), "d"),
        Cell(row.outcome()),
    ]


def _with_spread(row: Row, name: str) -> Cell:
    mean, spread = row.mean("final", name), row.spread("final", name)
    if mean is None:
        return Cell("")
    return Cell(f"{mean:.1f}" + (f" ± {spread:.1f}" if spread is not None else ""), mean)


def _number(value: float | None, form: str) -> Cell:
    return Cell("") if value is None else Cell(format(value, form), value)


def is_baseline(line: list[Cell]) -> bool:
    """Return whether a line of `table` is that of the baseline."""
    return line[0].text == BASELINE
