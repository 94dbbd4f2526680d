"""Evaluation results: scores, and a comparison with another system if requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_transformer.evaluation.metrics import References, evaluate, moses_tokenizer
from keras_transformer.evaluation.significance import paired_bootstrap
from keras_transformer.evaluation.tokenization import AUTO


def evaluation_results(
    hypotheses: Sequence[str],
    references: References,
    target_language: str,
    *,
    lowercase: bool = False,
    tokenize: str = AUTO,
    moses: bool = False,
    baseline: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Score translations, and compare them with a baseline if there is one.

    Args:
        hypotheses: One translation for each sentence, detokenised.
        references: Sets of references, as for ``metrics.evaluate``.
        target_language: Language code of the translations.
        lowercase: Ignore case.
        tokenize: sacreBLEU's name of BLEU's tokenizer; "auto": as ``choose_tokenization`` does.
        moses: Tokenise translations with ``metrics.moses_tokenizer``, for references that are
            tokenised that way; ``tokenize`` should then be "none".
        baseline: Another system's translations, detokenised.

    Returns:
        The fields of ``metrics.Scores``; with ``baseline`` also ``against``, a list of
        ``significance.Comparison`` as dictionaries.

    Raises:
        EvaluationError: The counts differ, or the tokenizer cannot be used.
    """
    if moses:
        tokenized = moses_tokenizer(target_language, lowercase)
        hypotheses = [tokenized(line) for line in hypotheses]
        baseline = None if baseline is None else [tokenized(line) for line in baseline]
    result: dict[str, Any] = evaluate(
        hypotheses, references, target_language, lowercase, tokenize
    ).to_dict()
    if baseline is not None:
        comparisons = paired_bootstrap(
            hypotheses, baseline, references, target_language, lowercase, tokenize
        )
        result["against"] = [comparison.to_dict() for comparison in comparisons]
    return result
