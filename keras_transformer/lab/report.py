"""Report of a laboratory: one self-contained HTML page, and a PNG for each experiment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from keras_transformer import system
from keras_transformer.config import Config, ConfigError
from keras_transformer.lab import diagrams, figures, findings, tables
from keras_transformer.lab.experiment import Experiment
from keras_transformer.lab.jobs import Corpus
from keras_transformer.lab.plots import panels
from keras_transformer.lab.results import Results
from keras_transformer.lab.summaries import (
    ExperimentSummary,
    Spread,
    VariantSummary,
    pooled_spread,
    summarize,
)
from keras_transformer.optional_dependencies import require_installed

FILE = "report.html"
PICTURES = "pictures"
"""Folder of the PNG files."""
_HERE = Path(__file__).parent
TITLE = "The Transformer, one choice at a time"


@dataclass(frozen=True)
class Report:
    """The results of all experiments as one page.

    Args:
        summaries: The results of each experiment.
        baseline: Configuration of the baseline.
        corpus: The corpus.
    """

    summaries: Sequence[ExperimentSummary]
    baseline: Config
    corpus: Corpus

    @classmethod
    def of(
        cls,
        experiments: Sequence[Experiment],
        baseline: Config,
        corpus: Corpus,
        results: Results,
    ) -> Report:
        """Collect the results of experiments.

        Experiments without any are left out, and those that are impossible with this baseline.

        Raises:
            MissingError: Matplotlib is not installed.
        """
        require_installed("the report", ["matplotlib"])
        summaries = []
        for each in experiments:
            with contextlib.suppress(ConfigError):
                summaries.append(summarize(each, baseline, corpus, results))
        return cls([each for each in summaries if not each.empty], baseline, corpus)

    @property
    def spread(self) -> Spread:
        """Spread of BLEU over seeds."""
        return pooled_spread(self.summaries)

    def write(self, folder: Path) -> Path:
        """Write ``report.html`` and ``pictures/EXPERIMENT.png``; return the page's path.

        Raises:
            FileError: A file cannot be written.
        """
        pictures = folder / PICTURES
        pictures.mkdir(parents=True, exist_ok=True)
        for each in self.summaries:
            figures.write_png(each, pictures / f"{each.experiment.name}.png")
        path = folder / FILE
        system.write_text(path, self.page())
        return path

    def page(self) -> str:
        """Return the HTML page."""
        spread = self.spread
        parts = {name: (_HERE / f"report.{name}").read_text("utf-8") for name in ("css", "js")}
        return Template((_HERE / "report.html").read_text("utf-8")).substitute(
            title=TITLE,
            style=parts["css"],
            script=parts["js"],
            introduction=escape(self.introduction()),
            spread=escape(f"{spread.describe()} {MEANING}"),
            overview=self._overview(spread),
            experiments="\n".join(_experiment(each, spread) for each in self.summaries),
            footer=escape(self.origin()),
        )

    def introduction(self) -> str:
        """Return a paragraph about the baseline and the corpus."""
        model, train = self.baseline.model, self.baseline.train
        limit = f"{train.max_steps:,} steps"
        if train.max_minutes:
            limit = f"{train.max_minutes:g} minutes"
        pairs = next((row.mean("pairs") for row in self._rows() if row.results), None)
        size = f", {pairs:,.0f} training pairs" if pairs else ""
        return (
            "Each experiment changes one choice of the paper, or of the baseline, and leaves the "
            f"rest. Corpus: {self.corpus.name} ({self.baseline.data.source} to "
            f"{self.baseline.data.target}{size}). Baseline: {model.norm.title()}-LN, "
            f"{model.encoder_layers} + {model.decoder_layers} layers, width {model.d_model}, "
            f"{model.heads} heads, {limit} of at most {train.batch_tokens:,} target tokens. "
            "Scores are of the dev set; losses are unsmoothed."
        )

    def origin(self) -> str:
        """Return a sentence about the versions and processors of the results."""
        results = [result for row in self._rows() for result in row.results]
        versions = sorted({f"TensorFlow {each['versions']['tensorflow']}" for each in results})
        kinds = sorted({f"{each['cores']} cores, {each['processor']}" for each in results})
        return f"{len({each['key'] for each in results})} results. {'; '.join(versions + kinds)}."

    def _rows(self) -> Iterator[VariantSummary]:
        for each in self.summaries:
            yield from each.rows.values()

    def _overview(self, spread: Spread) -> str:
        rows = []
        for each in self.summaries:
            name, title = each.experiment.name, each.experiment.title
            verdict = findings.verdict_counts(each, spread)
            rows.append(
                f'<tr><td><a href="#{name}">{name}</a></td><td class="text">{escape(title)}</td>'
                f'<td class="text">{verdict}</td></tr>'
            )
        head = '<th>experiment</th><th class="text">choice</th><th class="text">result</th>'
        return (
            f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>'
            f"{''.join(rows)}</tbody></table></div>"
        )


MEANING = (
    "A difference counts if it is above twice its standard error; smaller ones are within the "
    "spread. Thin lines are single seeds, thick lines their mean. A cross marks the end of a "
    "diverged run."
)
"""How to read differences and figures."""


def _experiment(summary: ExperimentSummary, spread: Spread) -> str:
    """Return the section of an experiment."""
    experiment = summary.experiment
    result = "".join(f"<li>{escape(text)}</li>" for text in findings.sentences(summary, spread))
    notes = f'<p class="summary">{escape(experiment.notes)}</p>' if experiment.notes else ""
    return f"""<section id="{experiment.name}">
<h2>{escape(experiment.heading)}</h2>
<div class="choice">
<div>{diagrams.diagram(experiment.boxes)}</div>
<div>
<dl class="formulas"><dt>before</dt><dd>{escape(experiment.before)}</dd>
<dt>after</dt><dd class="after">{escape(experiment.after)}</dd></dl>
<h3>Expected</h3><p>{escape(experiment.literature)}</p>
<h3>Result</h3><ul class="result">{result}</ul>
{notes}
</div>
</div>
{_table(summary)}
{_legend(summary)}
<div class="figures">{"".join(_figures(summary))}</div>
</section>"""


def _table(summary: ExperimentSummary) -> str:
    head = "".join(
        f'<th class="text">{name}</th>' if name == "outcome" else f"<th>{name}</th>"
        for name in tables.COLUMNS
    )
    lines = []
    for line in tables.table(summary):
        cells = "".join(
            f"<td{_attributes(name, cell)}>{escape(cell.text)}</td>"
            for name, cell in zip(tables.COLUMNS, line, strict=True)
        )
        kind = ' class="baseline"' if tables.is_baseline(line) else ""
        lines.append(f"<tr{kind}>{cells}</tr>")
    return (
        f'<div class="scroll long"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>'
        f"{''.join(lines)}</tbody></table></div>"
    )


def _attributes(name: str, cell: tables.Cell) -> str:
    kind = ' class="text"' if name == "outcome" else ""
    return kind + (f' data-value="{cell.value:g}"' if cell.value is not None else "")


def _legend(summary: ExperimentSummary) -> str:
    names = figures.legend(summary)
    if len(names) < 2:
        return ""
    items = [
        f'<li><svg viewBox="0 0 30 8" aria-hidden="true"><path d="M0 4H30" stroke="{color}" '
        f'stroke-width="2.5" stroke-dasharray="{dashes}"/></svg>{escape(name)}</li>'
        for name, color, dashes in names
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _figures(summary: ExperimentSummary) -> Iterator[str]:
    for number, panel in enumerate(panels(summary)):
        picture = figures.svg(panel, f"{summary.experiment.name}-{number}")
        kind = ' class="wide"' if panel.wide else ""
        yield f"<figure{kind}><figcaption>{escape(panel.title)}</figcaption>{picture}</figure>"
