"""Corpus scores of sacreBLEU (Post, 2018): BLEU, chrF2 and TER, with their signatures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from sacrebleu.metrics import CHRF, TER
from sacrebleu.metrics.base import Metric
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.tokenization import (
    AUTO,
    Tokenization,
    bleu_metric,
    choose_tokenization,
    language,
)

MIN_BLEU = 1.0
"""Least BLEU that says something; less comes from smoothing and a few matches by chance."""

References = Sequence[Sequence[str | None]]
"""Sets with one reference for each sentence; None where a sentence has no further one."""


@dataclass(frozen=True)
class Scores:
    """Corpus scores of one set of translations, with sacreBLEU's signatures.

    Attributes:
        bleu: 0 to 100, higher is better.
        chrf: chrF2 (character 6-grams, no word n-grams, beta 2), 0 to 100, higher is better.
        ter: Edits per 100 reference words, lower is better; may exceed 100. In Chinese and
            Japanese a word is one character.
        sentences: Number of translations.
        brevity_penalty: Factor of BLEU for short output; 1 if the output is long enough.
        length_ratio: Words in the translations per word of the references.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    ter: float
    ter_signature: str
    sentences: int
    brevity_penalty: float
    length_ratio: float

    def to_dict(self) -> dict[str, float | int | str]:
        """Return the scores by name, ready for JSON."""
        return dataclasses.asdict(self)


def metrics(tokenization: Tokenization, lowercase: bool = False) -> dict[str, Metric]:
    """Return sacreBLEU's BLEU, chrF2 and TER by the names in ``Scores``.

    Args:
        tokenization: From ``choose_tokenization``.
        lowercase: Ignore case.
    """
    by_character = tokenization.by_character
    return {
        "bleu": bleu_metric(tokenization.name, lowercase),
        "chrf": CHRF(lowercase=lowercase),
        "ter": TER(
            case_sensitive=not lowercase, normalized=by_character, asian_support=by_character
        ),
    }


def reference_texts(references: References) -> Iterable[str | None]:
    """Return the texts of all sets of references, for ``choose_tokenization``."""
    return chain.from_iterable(references)


def check_counts(hypotheses: Sequence[str], references: References) -> None:
    """Refuse translations and references that differ in number.

    Raises:
        EvaluationError: The counts differ, or there are no sentences or references.
    """
    if not references:
        raise EvaluationError("references: expected at least one for each translation, got none")
    for number, stream in enumerate(references, start=1):
        if len(stream) != len(hypotheses):
            which = f"reference {number}" if len(references) > 1 else "the reference"
            raise EvaluationError(
                f"the translations have {len(hypotheses)} lines, {which} has {len(stream)}"
            )
    if not hypotheses:
        raise EvaluationError("there are no sentences to evaluate")


def bleu(hypotheses: Sequence[str], references: References, tokenize: str) -> float:
    """Return cased BLEU alone, 0 to 100; faster than ``evaluate`` during training.

    Args:
        hypotheses: One translation for each sentence, detokenised.
        references: Sets of references, each as long as ``hypotheses``.
        tokenize: sacreBLEU's name of the tokenizer, as in ``Tokenization``.

    Raises:
        EvaluationError: The counts differ, or the tokenizer cannot be used.
    """
    check_counts(hypotheses, references)
    return bleu_metric(tokenize).corpus_score(hypotheses, references).score


def chrf(hypotheses: Sequence[str], others: Sequence[str]) -> float:
    """Return chrF2 of translations against other translations, 0 to 100; 100 if all are equal.

    Args:
        hypotheses: One translation for each sentence.
        others: As many other translations of the same sentences; blank ones too.

    Raises:
        EvaluationError: The counts differ.
    """
    check_counts(hypotheses, [others])
    if list(hypotheses) == list(others):  # also where all are blank
        return 100.0
    return CHRF().corpus_score(hypotheses, [others]).score


def evaluate(
    hypotheses: Sequence[str],
    references: References,
    target_language: str,
    lowercase: bool = False,
    tokenize: str = AUTO,
) -> Scores:
    """Score translations against one or more sets of references.

    Args:
        hypotheses: One translation for each sentence, detokenised.
        references: Sets of references, each as long as ``hypotheses`` (``[lines]`` for a
            single one); None if a sentence has no further reference.
        target_language: Language code of the translations.
        lowercase: Ignore case.
        tokenize: sacreBLEU's name of BLEU's tokenizer; "auto": as ``choose_tokenization`` does.

    Returns:
        The scores with their signatures.

    Raises:
        EvaluationError: The counts differ, or the tokenizer cannot be used.
    """
    check_counts(hypotheses, references)
    texts = reference_texts(references)
    measures = metrics(choose_tokenization(target_language, texts, tokenize), lowercase)
    scored = {
        name: measure.corpus_score(hypotheses, references) for name, measure in measures.items()
    }
    signature = {name: str(measure.get_signature()) for name, measure in measures.items()}
    return Scores(
        bleu=scored["bleu"].score,
        bleu_signature=signature["bleu"],
        chrf=scored["chrf"].score,
        chrf_signature=signature["chrf"],
        ter=scored["ter"].score,
        ter_signature=signature["ter"],
        sentences=len(hypotheses),
        brevity_penalty=scored["bleu"].bp,
        length_ratio=scored["bleu"].ratio,
    )


def group_references(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[list[str | None]]]:
    """Group the references of each source sentence.

    Args:
        pairs: Source and reference; a source may occur several times.

    Returns:
        The distinct sources in order of first occurrence, and sets of references as for
        ``evaluate``.
    """
    by_source: dict[str, list[str]] = {}
    for source, reference in pairs:
        by_source.setdefault(source, []).append(reference)
    most = max(map(len, by_source.values()), default=0)
    streams: list[list[str | None]] = [
        [own[number] if number < len(own) else None for own in by_source.values()]
        for number in range(most)
    ]
    return list(by_source), streams


def moses_tokenizer(target_language: str, lowercase: bool) -> Callable[[str], str]:
    """Return a function that normalises and tokenises text as Moses does.

    It turns the raw Multi30k references into the published ``*.lc.norm.tok.*``, line for line,
    in German and in French.

    Args:
        target_language: Language code of the text.
        lowercase: Lower-case the text first.
    """
    normalizer = MosesPunctNormalizer(lang=language(target_language))
    tokenizer = MosesTokenizer(lang=language(target_language))

    def tokenized(text: str) -> str:
        # Some of the rules match the end of a line.
        line = (text.lower() if lowercase else text) + "\n"
        return str(tokenizer.tokenize(normalizer.normalize(line), return_str=True))

    return tokenized
