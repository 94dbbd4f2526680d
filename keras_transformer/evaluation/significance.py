"""Significance of score differences: paired bootstrap resampling (Koehn, 2004)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.significance import PairedTest, Result

from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.metrics import (
    References,
    check_counts,
    metrics,
    reference_texts,
)
from keras_transformer.evaluation.tokenization import AUTO, choose_tokenization


@dataclass(frozen=True)
class Comparison:
    """One score of two systems on the same sentences.

    Attributes:
        metric: ``bleu``, ``chrf`` or ``ter``.
        score: Score of the system.
        other: Score of the baseline.
        delta: ``score - other``.
        p_value: Probability of a difference at least as large if the systems are equally good;
            below 0.05 is commonly called significant.
        confidence: Half the width of the 95 % confidence interval around ``score``.
        other_confidence: Half the width of the 95 % confidence interval around ``other``.
        signature: sacreBLEU's signature, with resamples and seed.
    """

    metric: str
    score: float
    other: float
    delta: float
    p_value: float
    confidence: float
    other_confidence: float
    signature: str

    def to_dict(self) -> dict[str, float | str]:
        """Return the comparison by name, ready for JSON."""
        return dataclasses.asdict(self)


def check_seed() -> None:
    """Check the variable ``SACREBLEU_SEED``.

    Raises:
        EvaluationError: It is neither a whole number nor none.
    """
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not seed.isdecimal():
        raise EvaluationError(
            f"SACREBLEU_SEED: expected a whole number, or none for a random one, got {seed!r}"
        )


def paired_bootstrap(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: References,
    target_language: str,
    lowercase: bool = False,
    tokenize: str = AUTO,
    resamples: int = 1_000,
) -> list[Comparison]:
    """Compare a system with a baseline on resampled test sets.

    Resampling is seeded (sacreBLEU's seed 12345, or the variable ``SACREBLEU_SEED``), so that
    results are reproducible.

    Args:
        hypotheses: Translations of the system.
        baseline: Translations of the same sentences by the baseline.
        references: Sets of references, as for ``metrics.evaluate``.
        target_language: Language code of the translations.
        lowercase: Ignore case.
        tokenize: sacreBLEU's name of BLEU's tokenizer; "auto": as ``choose_tokenization`` does.
        resamples: Number of resampled test sets.

    Returns:
        A comparison for each of BLEU, chrF2 and TER.

    Raises:
        EvaluationError: The counts differ, or the tokenizer or the seed cannot be used.
    """
    check_seed()
    if len(hypotheses) != len(baseline):
        raise EvaluationError(
            f"the translations have {len(hypotheses)} lines, the other system's {len(baseline)}"
        )
    check_counts(hypotheses, references)
    texts = reference_texts(references)
    measures = metrics(choose_tokenization(target_language, texts, tokenize), lowercase)
    # The first of sacreBLEU's systems is the baseline.
    test = PairedTest(
        [("baseline", baseline), ("system", hypotheses)],
        measures,
        references,
        test_type="bs",
        n_samples=resamples,
    )
    signatures, results = test()
    # Results have the order of the measures, under sacreBLEU's names.
    return [
        _comparison(metric, str(signature), *results[name])
        for metric, (name, signature) in zip(measures, signatures.items(), strict=True)
    ]


def _comparison(metric: str, signature: str, other: Result, system: Result) -> Comparison:
    delta = float(system.score - other.score)
    return Comparison(
        metric=metric,
        score=system.score,
        other=other.score,
        delta=delta,
        # sacreBLEU counts strictly greater differences: equal outputs would seem different.
        p_value=system.p_value if delta else 1.0,
        confidence=float(system.ci),
        other_confidence=float(other.ci),
        signature=signature,
    )
