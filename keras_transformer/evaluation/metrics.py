"""Corpus scores by sacreBLEU (Post, 2018): BLEU, chrF2 and TER, each with its signature."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from keras_transformer.errors import UserError

# Languages written without spaces between words, and Korean, whose words carry particles.
_TOKENIZERS = {
    "zh": "zh",
    "zho": "zh",
    "cmn": "zh",
    "ja": "ja-mecab",
    "jpn": "ja-mecab",
    "ko": "ko-mecab",
    "kor": "ko-mecab",
}
_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}

References = Sequence[Sequence[str | None]]


class EvaluationError(UserError):
    """Translations and references that cannot be compared."""


@dataclass(frozen=True)
class Scores:
    """The scores of one set of translations; each signature says how it was computed.

    Attributes:
        bleu: 0 to 100, higher is better.
        chrf: chrF2 (character 6-grams, no word n-grams, recall weighs twice), 0 to 100.
        ter: Edits per 100 reference words, lower is better; it can be above 100. In Chinese
            and Japanese a word is one character.
        sentences: Number of translations.
        brevity_penalty: What BLEU takes off short output; 1 takes nothing.
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
        """The scores by name, ready for JSON."""
        return dataclasses.asdict(self)


def bleu_tokenizer(target_language: str) -> str:
    """The sacreBLEU tokenizer for a language code such as ``de``, ``zh`` or ``zh-TW``."""
    return _TOKENIZERS.get(_language(target_language), BLEU.TOKENIZER_DEFAULT)


def _language(code: str) -> str:
    return re.split("[-_]", code.lower())[0]


def metrics(
    target_language: str, lowercase: bool = False, tokenize: str | None = None
) -> dict[str, Metric]:
    """BLEU, chrF2 and TER set up for a language, by the names of ``Scores``.

    Args:
        target_language: Code of the language of the translations.
        lowercase: Compare without regard to case.
        tokenize: sacreBLEU's name of a tokenizer for BLEU; None: by language.

    Raises:
        EvaluationError: The tokenizer is unknown, or what it needs is not installed.
    """
    by_character = bleu_tokenizer(target_language) in ("zh", "ja-mecab")
    return {
        "bleu": _bleu(target_language, lowercase, tokenize),
        "chrf": CHRF(lowercase=lowercase),
        "ter": TER(
            case_sensitive=not lowercase, normalized=by_character, asian_support=by_character
        ),
    }


def _bleu(target_language: str, lowercase: bool, tokenize: str | None) -> BLEU:
    name = tokenize or bleu_tokenizer(target_language)
    if name not in BLEU.TOKENIZERS:
        raise EvaluationError(
            f"tokenize: expected one of {', '.join(BLEU.TOKENIZERS)}, got {name!r}"
        )
    try:
        # force: text tokenised on purpose needs no warning.
        return BLEU(lowercase=lowercase, tokenize=name, force=True)
    except (ImportError, OSError, RuntimeError) as error:
        extra = _EXTRAS.get(name)
        how = f"pip install '{extra}', or choose another tokenizer" if extra else str(error)
        raise EvaluationError(f"BLEU tokenizer {name} cannot be loaded: {how}") from None


def check_counts(hypotheses: Sequence[str], references: References) -> None:
    """Refuse translations and references that differ in number.

    Raises:
        EvaluationError: With both counts; or there is nothing to compare.
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


def bleu(hypotheses: Sequence[str], references: References, target_language: str) -> float:
    """Cased BLEU alone, 0 to 100, for looking in on a training.

    Args:
        hypotheses: One translation for each sentence, detokenised.
        references: As for ``evaluate``.
        target_language: Code of the language of the translations.

    Raises:
        EvaluationError: The counts differ, or the tokenizer cannot be loaded.
    """
    check_counts(hypotheses, references)
    return _bleu(target_language, False, None).corpus_score(hypotheses, references).score


def evaluate(
    hypotheses: Sequence[str],
    references: References,
    target_language: str,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> Scores:
    """Score translations against one or more sets of references.

    Args:
        hypotheses: One translation for each sentence, detokenised.
        references: Sets of references, each as long as ``hypotheses`` (``[lines]`` for a
            single one); None stands where a sentence has no further reference.
        target_language: Code of the language of the translations; it chooses the tokenizer
            of BLEU.
        lowercase: Compare without regard to case.
        tokenize: sacreBLEU's name of a tokenizer for BLEU; None: by language.

    Raises:
        EvaluationError: The counts differ, or the tokenizer cannot be used.
    """
    check_counts(hypotheses, references)
    measures = metrics(target_language, lowercase, tokenize)
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


def group(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[list[str | None]]]:
    """Bring together the references of each source sentence.

    Args:
        pairs: Source and reference; a source may come several times.

    Returns:
        The distinct sources in the order of their first appearance, and sets of references
        in the form that ``evaluate`` takes.
    """
    by_source: dict[str, list[str]] = {}
    for source, reference in pairs:
        by_source.setdefault(source, []).append(reference)
    most = max(map(len, by_source.values()), default=0)
    streams: list[list[str | None]] = [
        [found[number] if number < len(found) else None for found in by_source.values()]
        for number in range(most)
    ]
    return list(by_source), streams


def moses_tokenizer(language: str, lowercase: bool) -> Callable[[str], str]:
    """Text as published tokenised references have it: Moses' normaliser and tokenizer.

    The Multi30k references ``*.lc.norm.tok.*`` come out of the raw text in this way, line
    for line, in German and in French.

    Args:
        language: Code of the text's language.
        lowercase: Lower-case the text first.
    """
    normalizer = MosesPunctNormalizer(lang=_language(language))
    tokenizer = MosesTokenizer(lang=_language(language))

    def tokenized(text: str) -> str:
        # Some of the rules look for the end of a line.
        line = (text.lower() if lowercase else text) + "\n"
        return str(tokenizer.tokenize(normalizer.normalize(line), return_str=True))

    return tokenized
