"""Writing system of a text, on which the tokenizer of BLEU depends.

Four kinds count: Chinese, Japanese, Korean, and the scripts without spaces between words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

Script = Literal["chinese", "japanese", "korean", "spaceless"]

_Ranges = tuple[tuple[int, int], ...]
_HAN: _Ranges = (
    (0x3005, 0x3007),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_KANA: _Ranges = ((0x3041, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F))
_HANGUL: _Ranges = ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF))
# Scripts of South East Asia and Tibet, which set no spaces between words.
_SPACELESS: _Ranges = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0xA980, 0xA9FF),  # Javanese, Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
)
_GROUPS = {"han": _HAN, "kana": _KANA, "korean": _HANGUL, "spaceless": _SPACELESS}

MIN_SHARE = 0.25
"""Least share of a script in the letters of a text; names and quotations stay below."""

_MIN_KANA = 0.05
"""Least share of kana in Han and kana: Japanese text has far more, Chinese hardly any."""


def detect_script(texts: Iterable[str | None]) -> Script | None:
    """Detect the writing system of a text.

    Args:
        texts: The lines of the text; None is skipped.

    Returns:
        "chinese", "japanese", "korean", "spaceless" for Thai, Lao, Khmer, Burmese, Tibetan and
        the like; None for all other text.
    """
    characters: Counter[str] = Counter()
    for text in texts:
        characters.update(text or "")
    counts: Counter[str] = Counter()
    for character, number in characters.items():
        group = _group(character)
        if group or character.isalpha():
            counts[group] += number
    han, kana = counts["han"], counts["kana"]
    shares: dict[Script, int] = {
        "japanese" if kana > _MIN_KANA * (han + kana) else "chinese": han + kana,
        "korean": counts["korean"],
        "spaceless": counts["spaceless"],
    }
    largest = max(shares, key=lambda script: shares[script])
    enough = shares[largest] >= max(MIN_SHARE * counts.total(), 1)
    return largest if enough else None


def _group(character: str) -> str:
    """Return the key of ``_GROUPS`` for a character; "" for other scripts."""
    code = ord(character)
    for group, ranges in _GROUPS.items():
        if any(first <= code <= last for first, last in ranges):
            return group
    return ""
