"""Is the better score luck? Paired bootstrap resampling (Koehn, 2004)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.significance import PairedTest, Result

from keras_transformer.evaluation.metrics import EvaluationError, References, check_counts, metrics


@dataclass(frozen=True)
class Comparison:
    """One score of two systems on the same sentences.

    Attributes:
        metric: ``bleu``, ``chrf`` or ``ter``.
        score: Score of the first system.
        other: Score of the second.
        delta: ``score - other``.
        p_value: How likely a difference as large as this is where the systems are equally
            good; below 0.05 is commonly called significant.
        confidence: Half the width of the 95 % confidence interval around ``score``.
        other_confidence: The same around ``other``.
        signature: How the scores were computed, with resamples and seed.
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
        """The comparison by name, ready for JSON."""
        return dataclasses.asdict(self)


def paired_bootstrap(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: References,
    target_language: str,
    lowercase: bool = False,
    tokenize: str | None = None,
    resamples: int = 1_000,
) -> list[Comparison]:
    """Compare two systems on sentences drawn again and again from the same test set.

    The draw is seeded (sacreBLEU's seed, 12345, or the variable ``SACREBLEU_SEED``), so that
    a second call gives the same answer.

    Args:
        hypotheses: Translations by the first system.
        others: Translations of the same sentences by the second.
        references: Sets of references, as for ``metrics.evaluate``.
        target_language: Code of the language of the translations.
        lowercase: Compare without regard to case.
        tokenize: sacreBLEU's name of a tokenizer for BLEU; None: by language.
        resamples: Test sets drawn.

    Raises:
        EvaluationError: The counts differ, or the tokenizer cannot be used.
    """
    if len(hypotheses) != len(others):
        raise EvaluationError(
            f"the translations have {len(hypotheses)} lines, the other system's {len(others)}"
        )
    check_counts(hypotheses, references)
    measures = metrics(target_language, lowercase, tokenize)
    # The second system is the baseline, the first is tested against it.
    test = PairedTest(
        [("other", others), ("system", hypotheses)],
        measures,
        references,
        test_type="bs",
        n_samples=resamples,
    )
    signatures, results = test()
    # Results come in the order of the measures, under sacreBLEU's own names of them.
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
        # The library's count is strict and would call equal outputs different.
        p_value=system.p_value if delta else 1.0,
        confidence=float(system.ci),
        other_confidence=float(other.ci),
        signature=signature,
    )
