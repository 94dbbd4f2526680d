"""Figures of each variant over its seeds, and differences against the spread of seeds."""

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
"""Standard deviation of BLEU over seeds where no configuration has several."""
MIN_SPREAD = 0.2
"""Least standard deviation of BLEU that two or three seeds can show."""


@dataclass(frozen=True)
class Row:
    """The results of one variant."""

    variant: Variant
    results: Sequence[Result]
    """By seed; empty if it was not run."""

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
        """Return the values of all seeds at a path of names; missing ones are left out."""
        found: list[Any] = list(self.results)
        for name in path:
            found = [each[name] for each in found if each and each.get(name) is not None]
        return found

    def mean(self, *path: str) -> float | None:
        """Return the mean over seeds; None if there is no value."""
        values = self.values(*path)
        return statistics.fmean(values) if values else None

    def spread(self, *path: str) -> float | None:
        """Return the standard deviation over seeds; None for less than two."""
        values = self.values(*path)
        return statistics.stdev(values) if len(values) > 1 else None

    def on_longer(self, tokens: int, name: str) -> float | None:
        """Return the mean of ``name`` over all sentences of more source tokens; None without any.

        A mean of corpus scores by bucket, weighted by the sentences of each.
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
class Sheet:
    """The rows of an experiment by the name of the variant, the baseline first."""

    experiment: Experiment
    rows: dict[str, Row]

    @property
    def complete(self) -> bool:
        """Whether each variant has a result."""
        return all(row.results for row in self.rows.values())

    @property
    def empty(self) -> bool:
        """Whether no variant but the baseline has a result."""
        return not any(row.results for row in self.rows.values() if row.name != BASELINE)

    def against(self, row: Row) -> Row:
        """Return the row that a row is compared with."""
        return self.rows.get(row.variant.against, self.rows[BASELINE])

    def loss(self, result: Result, nll: float | None) -> float | None:
        """Return a loss in nats a token, or a character where the vocabularies differ."""
        if nll is None or not self.experiment.per_character:
            return nll
        final = result.get("final") or {}
        return nll / final["characters_per_token"] if final else None

    def target_loss(self) -> float | None:
        """Return the loss of the baseline after half of its steps, which variants have to reach."""
        found = []
        for result in self.rows[BASELINE].results:
            curve = result.get("curve") or []
            losses = [self.loss(result, point["nll"]) for point in curve[: (len(curve) + 1) // 2]]
            found += [loss for loss in losses[-1:] if loss is not None]
        return statistics.fmean(found) if found else None

    def reach(self, row: Row, name: str, target: float | None) -> float | None:
        """Return the mean of ``name``, steps or tokens, at which the seeds reach the target.

        Returns:
            None if a seed does not reach it.
        """
        found = [self._reach(result, name, target) for result in row.results]
        values = [value for value in found if value is not None]
        return statistics.fmean(values) if values and len(values) == len(found) else None

    def _reach(self, result: Result, name: str, target: float | None) -> float | None:
        before: tuple[float, float] | None = None
        for point in result.get("curve") or []:
            loss = self.loss(result, point["nll"])
            if loss is None or target is None:
                return None
            if loss <= target:
                if before is None:
                    return float(point[name])
                share = (before[1] - target) / (before[1] - loss)  # linear between two points
                return before[0] + share * (point[name] - before[0])
            before = point[name], loss
        return None


def sheet(experiment: Experiment, baseline: Config, corpus: Corpus, results: Results) -> Sheet:
    """Return the rows of an experiment.

    Raises:
        ConfigError: A variant is not possible with this baseline.
    """
    rows = {
        name: Row(variant, results.of_variant(variant_key(config, corpus)))
        for name, (variant, config) in experiment.variants_of(baseline).items()
    }
    return Sheet(experiment, rows)


@dataclass(frozen=True)
class Spread:
    """Standard deviation of BLEU over seeds, pooled over all configurations."""

    value: float
    configurations: int
    """Configurations with several seeds behind it; 0: assumed."""

    def threshold(self, first: int, second: int) -> float:
        """Return twice the standard error of a difference between means of so many seeds."""
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


def pooled_spread(sheets: Sequence[Sheet]) -> Spread:
    """Return the spread over the seeds of all variants that learned."""
    variances, seen = [], set()
    for each in sheets:
        for row in each.rows.values():
            values = [result["final"]["bleu"] for result in row.learned if result["final"]]
            key = row.results[0]["variant"] if row.results else ""
            if len(values) > 1 and key not in seen:
                seen.add(key)
                variances.append(statistics.variance(values))
    if not variances:
        return Spread(ASSUMED_SPREAD, 0)
    return Spread(max(math.sqrt(statistics.fmean(variances)), MIN_SPREAD), len(variances))
