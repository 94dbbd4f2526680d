"""Encoding of the sentence and the target of a picture."""

from __future__ import annotations

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.inference.line_encoding import encode_lines
from keras_transformer.inference.translation import TranslationError
from keras_transformer.inference.translator import Translator
from keras_transformer.special_tokens import source_tokens


def encode_source(translator: Translator, sentence: str) -> list[int]:
    """Return the tokens of a sentence that the encoder reads.

    Raises:
        TranslationError: It is blank or too long.
    """
    side, end = translator.tokenizer.source, translator.data.source_end
    return source_tokens(_encode(translator, side, sentence, "sentence", end), end)


def encode_target(translator: Translator, target: str) -> list[int]:
    """Return the ids of a given translation, without END.

    Raises:
        TranslationError: It is blank or too long.
    """
    return _encode(translator, translator.tokenizer.target, target, "target", True)


def _encode(
    translator: Translator, side: LanguageTokenizer, text: str, name: str, end: bool
) -> list[int]:
    (ids,) = encode_lines(side, [text], translator.data, name, 1, end=end)
    if not ids:
        raise TranslationError(f"{name}: expected text, got {text!r}")
    return ids
