"""Encoding of the sentence and the target of a picture."""

from __future__ import annotations

from keras_transformer.inference.line_encoding import encode_lines
from keras_transformer.inference.translation import TranslationError
from keras_transformer.inference.translator import Translator


def encode_source(translator: Translator, sentence: str) -> list[int]:
    """Return the ids of a sentence, without END.

    Raises:
        TranslationError: It is blank or too long.
    """
    return _encode(translator, sentence, "sentence")


def encode_target(translator: Translator, target: str) -> list[int]:
    """Return the ids of a given translation, without END.

    Raises:
        TranslationError: It is blank or too long.
    """
    return _encode(translator, target, "target")


def _encode(translator: Translator, text: str, name: str) -> list[int]:
    side = getattr(translator.tokenizer, "source" if name == "sentence" else "target")
    (ids,) = encode_lines(side, [text], translator.data, name, 1)
    if not ids:
        raise TranslationError(f"{name}: expected text, got {text!r}")
    return ids
