"""Corpus scores of sacreBLEU (Post, 2018): BLEU, chrF2 and TER, with their signatures."""

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
"""Sets with one reference for each sentence; None where a sentence has no further one."""


class EvaluationError(UserError):
    """Translations and references that cannot be compared, or an unusable tokenizer."""


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


def bleu_tokenizer(target_language: str) -> str:
    """Return the sacreBLEU tokenizer for a language code such as ``de``, ``zh`` or ``zh-TW``."""
    return _TOKENIZERS.get(_language(target_language), BLEU.TOKENIZER_DEFAULT)


def _language(code: str) -> str:
    return re.split("[-_]", code.lower())[0]


def metrics(
    target_language: str, lowercase: bool = False, tokenize: str | None = None
) -> dict[str, Metric]:
    """Return sacreBLEU's BLEU, chrF2 and TER for a language, by the names in ``Scores``.

    Args:
        target_language: Language code of the translations.
        lowercase: Ignore case.
        tokenize: sacreBLEU's name of BLEU's tokenizer; None: the one for the language.

    Raises:
        EvaluationError: The tokenizer is unknown or not installed.
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
        # force: no warning about text that seems tokenised.
        return BLEU(lowercase=lowercase, tokenize=name, force=True)
    except (ImportError, OSError, RuntimeError) as error:
        extra = _EXTRAS.get(name)
        how = f"pip install '{extra}', or choose another tokenizer" if extra else str(error)
        raise EvaluationError(f"BLEU tokenizer {name} cannot be loaded: {how}") from None


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


def bleu(hypotheses: Sequence[str], references: References, target_language: str) -> float:
    """Return cased BLEU alone, 0 to 100; faster than ``evaluate`` during training.

    Args:
        hypotheses: One translation for each sentence, detokenised.
        references: Sets of references, each as long as ``hypotheses``.
        target_language: Language code of the translations.

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
            single one); None if a sentence has no further reference.
        target_language: Language code of the translations; it selects BLEU's tokenizer.
        lowercase: Ignore case.
        tokenize: sacreBLEU's name of BLEU's tokenizer; None: the one for the language.

    Returns:
        The scores with their signatures.

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


def moses_tokenizer(language: str, lowercase: bool) -> Callable[[str], str]:
    """Return a function that normalises and tokenises text as Moses does.

    It turns the raw Multi30k references into the published ``*.lc.norm.tok.*``, line for line,
    in German and in French.

    Args:
        language: Language code of the text.
        lowercase: Lower-case the text first.
    """
    normalizer = MosesPunctNormalizer(lang=_language(language))
    tokenizer = MosesTokenizer(lang=_language(language))

    def tokenized(text: str) -> str:
        # Some of the rules match the end of a line.
        line = (text.lower() if lowercase else text) + "\n"
        return str(tokenizer.tokenize(normalizer.normalize(line), return_str=True))

    return tokenized
