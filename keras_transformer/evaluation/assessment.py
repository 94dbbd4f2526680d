"""All that ``evaluate`` reports about one set of translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_transformer.evaluation.metrics import References, evaluate, moses_tokenizer
from keras_transformer.evaluation.significance import paired_bootstrap


def assess(
    hypotheses: Sequence[str],
    references: References,
    target_language: str,
    *,
    lowercase: bool = False,
    tokenize: str | None = None,
    moses: bool = False,
    others: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Scores, and the comparison with another system where there is one.

    Args:
        hypotheses: One translation for each sentence, detokenised.
        references: Sets of references, as ``metrics.evaluate`` takes them.
        target_language: Code of the language of the translations.
        lowercase: Compare without regard to case.
        tokenize: sacreBLEU's name of a tokenizer for BLEU; None: by language.
        moses: Tokenise translations as ``metrics.moses_tokenizer`` does; the references are
            so already, and ``tokenize`` should be "none".
        others: Another system's translations, detokenised.

    Returns:
        The fields of ``metrics.Scores``; with ``others`` also ``against``, a list of
        ``significance.Comparison`` as dictionaries.

    Raises:
        EvaluationError: The counts differ, or the tokenizer cannot be used.
    """
    if moses:
        tokenized = moses_tokenizer(target_language, lowercase)
        hypotheses = [tokenized(line) for line in hypotheses]
        others = None if others is None else [tokenized(line) for line in others]
    result: dict[str, Any] = evaluate(
        hypotheses, references, target_language, lowercase, tokenize
    ).to_dict()
    if others is not None:
        compared = paired_bootstrap(
            hypotheses, others, references, target_language, lowercase, tokenize
        )
        result["against"] = [comparison.to_dict() for comparison in compared]
    return result
