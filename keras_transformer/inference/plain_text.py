"""What may stand in a translation: one line of plain text."""

from __future__ import annotations

import re

SPACES = r"[\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u2581]+"
"""What becomes one space, read alike by Python's ``re`` and by TensorFlow's RE2.

Spelled bytes can make a line break, a control character or SentencePiece's mark for a space.
"""

_SPACES = re.compile(SPACES)


def plain(text: str) -> str:
    """``text`` as one line, single spaces inside and none around."""
    return _SPACES.sub(" ", text).strip(" ")
