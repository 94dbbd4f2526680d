"""Results of each variant over its seeds, and the spread that decides what differences count."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_transformer.config import Config
from keras_transformer.lab.experiment import BASELINE, Experiment, Variant
from keras_transformer.lab.jobs import Corpus, variant_key
from keras_transformer.lab.results import Result, Results

ASSUMED_SPREAD = 1.0
"""Standard deviation of BLEU over seeds as long as no configuration has several."""
MIN_SPREAD = 0.2
"""Lower limit of the standard deviation of BLEU: two or three seeds can agree by chance."""


@dataclass(frozen=True)
class VariantSummary:
    """The results of one variant over its seeds."""

    variant: Variant
    results: Sequence[Result]
    """In the order of the seeds; empty if the variant was not run."""

    @property
    def name(self) -> str:
        """Name of the variant."""
        return self.variant.name

    @property
    def learned(self) -> list[Result]:
        """Results of the seeds that learned."""
        return [each for each in self.results if each["outcome"] == "learned"]

    @property
    def failed(self) -> bool:
        """Whether most seeds diverged, collapsed or did not learn."""
        return bool(self.results) and 2 * len(self.learned) < len(self.results)

    def values(self, *path: str) -> list[float]:
        """Return the values of all seeds at a path of field names; missing values are left out."""
        found: list[Any] = list(self.results)
        for name in path:
            found = [each[name] for each in found if each and each.get(name) is not None]
        return found

    def mean(self, *path: str) -> float | None:
        """Return the mean over seeds; None if there is no value."""
        values = self.values(*path)
        return statistics.fmean(values) if values else None

    def spread(self, *path: str) -> float | None:
        """Return the standard deviation over seeds; None for fewer than two."""
        values = self.values(*path)
        return statistics.stdev(values) if len(values) > 1 else None

    def format_score(self, name: str) -> str:
        """Return mean and standard deviation of a final score as text; empty if there is none."""
        mean, spread = self.mean("final", name), self.spread("final", name)
        if mean is None:
            return ""
        return f"{mean:.1f}" + (f" ± {spread:.1f}" if spread is not None else "")

    def mean_above_length(self, tokens: int, name: str) -> float | None:
        """Return the mean of a score over the buckets of sentences with more source tokens.

        Buckets are weighted by their numbers of sentences. None if there is no such bucket.
        """
        total = count = 0.0
        for final in (each["final"] for each in self.results if each["final"]):
            buckets = [each for each in final["by_length"] if each["longest"] > tokens]
            total += sum(each[name] * each["sentences"] for each in buckets)
            count += sum(each["sentences"] for each in buckets)
        return total / count if count else None

    def outcome(self) -> str:
        """Describe the outcome of all seeds, such as "diverged at step 120 (2 of 3 seeds)"."""
        words = []
        for kind in ("diverged", "collapsed", "did not learn", "learned"):
            found = [each for each in self.results if each["outcome"] == kind]
            if not found:
                continue
            steps = sorted({each["diverged_at"] for each in found if each["diverged_at"]})
            at = f" at step {', '.join(map(str, steps))}" if steps else ""
            of = f" ({len(found)} of {len(self.results)} seeds)" if len(self.results) > 1 else ""
            words.append(kind + at + (of if len(found) < len(self.results) else ""))
        return "; ".join(words) or "not run"


@dataclass(frozen=True)
class ExperimentSummary:
    """The results of an experiment."""

    experiment: Experiment
    rows: dict[str, VariantSummary]
    """Rows of the table by name of the variant, the baseline first."""

    @property
    def complete(self) -> bool:
        """Whether each variant has a result."""
        return all(row.results for row in self.rows.values())

    @property
    def empty(self) -> bool:
        """Whether only the baseline has results, or nothing has."""
        return not any(row.results for row in self.rows.values() if row.name != BASELINE)

    def against(self, row: VariantSummary) -> VariantSummary:
        """Return the row with which a row is compared."""
        return self.rows.get(row.variant.against, self.rows[BASELINE])

    def loss(self, result: Result, nll: float | None) -> float | None:
        """Convert a loss in nats a token to nats a character if the vocabularies differ."""
        if nll is None or not self.experiment.per_character:
            return nll
        final = result.get("final") or {}
        return nll / final["characters_per_token"] if final else None

    def target_loss(self) -> float | None:
        """Return the target: the loss of the baseline after half of its steps."""
        found = []
        for result in self.rows[BASELINE].results:
            curve = result.get("curve") or []
            losses = [self.loss(result, point["nll"]) for point in curve[: (len(curve) + 1) // 2]]
            found += [loss for loss in losses[-1:] if loss is not None]
        return statistics.fmean(found) if found else None

    def mean_at_loss(self, row: VariantSummary, name: str, target: float | None) -> float | None:
        """Return the mean number of steps or tokens after which the seeds reach a loss.

        Args:
            row: A row.
            name: "step" or "target_tokens".
            target: The loss.

        Returns:
            None if a seed does not reach it.
        """
        found = [self._at_loss(result, name, target) for result in row.results]
        values = [value for value in found if value is not None]
        return statistics.fmean(values) if values and len(values) == len(found) else None

    def _at_loss(self, result: Result, name: str, target: float | None) -> float | None:
        before: tuple[float, float] | None = None
        for point in result.get("curve") or []:
            loss = self.loss(result, point["nll"])
            if loss is None or target is None:
                return None
            if loss <= target:
                if before is None:
                    return float(point[name])
                share = (before[1] - target) / (before[1] - loss)  # linear interpolation
                return before[0] + share * (point[name] - before[0])
            before = point[name], loss
        return None


def summarize(
    experiment: Experiment, baseline: Config, corpus: Corpus, results: Results
) -> ExperimentSummary:
    """Return the results of an experiment.

    Raises:
        ConfigError: A variant is invalid with this baseline.
    """
    rows = {
        name: VariantSummary(variant, results.of_variant(variant_key(config, corpus)))
        for name, (variant, config) in experiment.variants_of(baseline).items()
    }
    return ExperimentSummary(experiment, rows)


@dataclass(frozen=True)
class Spread:
    """Standard deviation of BLEU over seeds, pooled over all configurations."""

    value: float
    configurations: int
    """Number of configurations with several seeds; 0: the value is assumed."""

    def threshold(self, first: int, second: int) -> float:
        """Return twice the standard error of the difference between means of two seed counts."""
        return 2 * self.value * math.sqrt(1 / first + 1 / second)

    def describe(self) -> str:
        """Return a sentence about the spread."""
        if not self.configurations:
            return (
                f"No configuration has several seeds yet: a spread of {self.value:.1f} BLEU is "
                "assumed."
            )
        return (
            f"The standard deviation over seeds is {self.value:.2f} BLEU, pooled over "
            f"{self.configurations} configurations."
        )


def pooled_spread(summaries: Sequence[ExperimentSummary]) -> Spread:
    """Return the spread over the seeds of all variants that learned."""
    variances, seen = [], set()
    for each in summaries:
        for row in each.rows.values():
            values = [result["final"]["bleu"] for result in row.learned if result["final"]]
            key = row.results[0]["variant"] if row.results else ""
            if len(values) > 1 and key not in seen:
                seen.add(key)
                variances.append(statistics.variance(values))
    if not variances:
        return Spread(ASSUMED_SPREAD, 0)
    return Spread(max(math.sqrt(statistics.fmean(variances)), MIN_SPREAD), len(variances))
