"""Plain text of a translation: one line with single spaces."""

from __future__ import annotations

import re

SPACES = r"[\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u2581]+"
"""Characters replaced by one space; the pattern means the same in ``re`` and TensorFlow's RE2.

Byte pieces can spell a line break, a control character or SentencePiece's mark for a space.
"""

_SPACES = re.compile(SPACES)


def plain(text: str) -> str:
    """Return ``text`` as one line, with single spaces inside and none around."""
    return _SPACES.sub(" ", text).strip(" ")
