"""Plain text of a translation: one line with single spaces."""

from __future__ import annotations

import re

from keras_transformer.data.language_tokenizer import LanguageTokenizer

_SPACES = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def spaces(side: LanguageTokenizer) -> str:
    """Return the pattern of characters that one space replaces in the text of a tokenizer.

    The pattern means the same in ``re`` and TensorFlow's RE2. Byte pieces can spell a line break, a
    control character or SentencePiece's mark for a space.
    """
    return f"[{_SPACES}{side.space_mark}]+"


def plain(text: str, side: LanguageTokenizer) -> str:
    """Return ``text``, decoded by ``side``, as one line, with single spaces inside."""
    return re.sub(spaces(side), " ", text).strip(" ")
