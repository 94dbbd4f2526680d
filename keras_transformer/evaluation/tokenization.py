"""Tokenizer of BLEU, chosen by the language code or by the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sacrebleu.metrics import BLEU

from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.writing_system import Script, detect_script

AUTO = "auto"
"""Name that leaves the choice of the tokenizer to the language code and the text."""

_CHARACTERS = "char"
# Languages written without spaces between words, and Korean, whose words carry particles.
_BY_LANGUAGE = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "lzh", "yue", "wuu"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
    **dict.fromkeys(("th", "tha", "lo", "lao", "km", "khm"), _CHARACTERS),
    **dict.fromkeys(("my", "mya", "bur", "bo", "bod", "tib", "dz", "dzo"), _CHARACTERS),
}
_BY_SCRIPT: dict[Script, tuple[str, str]] = {
    "chinese": ("zh", "Chinese characters"),
    "japanese": ("ja-mecab", "Japanese"),
    "korean": ("ko-mecab", "Korean"),
    "spaceless": (_CHARACTERS, "no spaces between words"),
}
_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}


@dataclass(frozen=True)
class Tokenization:
    """Units in which translations and references are compared.

    Attributes:
        name: sacreBLEU's name of BLEU's tokenizer.
        by_character: Whether TER counts each Chinese or Japanese character as a word.
        note: A line for the user if the text chose the tokenizer; else "".
    """

    name: str
    by_character: bool
    note: str = ""


def language(code: str) -> str:
    """Return the language of a code such as ``de``, ``zh-TW`` or ``zho_Hans``."""
    return re.split("[-_]", code.lower())[0]


def choose_tokenization(
    target_language: str, references: Iterable[str | None] = (), tokenize: str = AUTO
) -> Tokenization:
    """Choose the tokenizer of BLEU and the words of TER.

    The language code decides if it has a tokenizer in the table. The text decides for all other
    codes, and if that tokenizer would leave whole sentences as one word.

    Args:
        target_language: Language code of the translations.
        references: The references, which are the text: translations by a model in training may
            be anything.
        tokenize: sacreBLEU's name of a tokenizer, or ``AUTO``.

    Raises:
        EvaluationError: The tokenizer is unknown or not installed. If the text chose it, single
            characters are used instead.
    """
    script = detect_script(references)
    named = _BY_LANGUAGE.get(language(target_language), "")
    by_text, description = _BY_SCRIPT[script] if script else ("", "")
    by_character = named in ("zh", "ja-mecab") or script in ("chinese", "japanese")
    if tokenize != AUTO:
        bleu_metric(tokenize)
        return Tokenization(tokenize, by_character)
    # A text overrules the tokenizer of its code only if that one would not split it.
    if not by_text or (named and by_text != _CHARACTERS) or named == by_text:
        name = named or BLEU.TOKENIZER_DEFAULT
        bleu_metric(name)
        return Tokenization(name, by_character)
    missing = ""
    try:
        bleu_metric(by_text)
    except EvaluationError as error:
        by_text, missing = _CHARACTERS, f" ({error})"
    note = (
        f"BLEU tokenizer: {by_text}, chosen by the text ({description}){missing}; the language "
        f"code {target_language!r} has {named or 'none'}"
    )
    return Tokenization(by_text, by_character, note)


def bleu_metric(name: str, lowercase: bool = False) -> BLEU:
    """Return sacreBLEU's BLEU with a tokenizer.

    Args:
        name: sacreBLEU's name of the tokenizer.
        lowercase: Ignore case.

    Raises:
        EvaluationError: The tokenizer is unknown or not installed.
    """
    if name not in BLEU.TOKENIZERS:
        raise EvaluationError(
            f"tokenize: expected one of {', '.join((AUTO, *BLEU.TOKENIZERS))}, got {name!r}"
        )
    try:
        # force: no warning about text that seems tokenised.
        return BLEU(lowercase=lowercase, tokenize=name, force=True)
    except (ImportError, OSError, RuntimeError) as error:
        extra = _EXTRAS.get(name)
        how = f"pip install '{extra}', or choose another, such as char" if extra else str(error)
        raise EvaluationError(f"BLEU tokenizer {name} cannot be loaded: {how}") from None
