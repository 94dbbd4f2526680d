"""Unicode normalization rules of the tokenizer: NFKC with exceptions.

The exceptions are cases in which NFKC harms translation. SentencePiece compiles the rules into
the model file, so training, Python inference and the exported graph all normalize alike, and no
other code in the package touches Unicode forms.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterator

import sentencepiece

# SentencePiece writes a space as U+2581; one in the text would be decoded as a space.
_SPACE_MARK = "\u2581"

# Invisible: soft hyphen, zero-width space, word joiner, byte-order mark, and the marks
# that only control the direction of display. The zero-width (non-)joiners U+200C and
# U+200D stay: Persian, Indic scripts and emoji are spelled with them.
_INVISIBLE = frozenset(
    "\u00ad\u200b\u2060\ufeff\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)

# Control characters that separate words; all others are removed. NUL is in neither group,
# because a SentencePiece rule cannot contain it; it is encoded as its byte.
_SEPARATORS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029\u1680")


def _is_kept(character: str) -> bool:
    """Return whether a character stays although NFKC changes it."""
    if "\uff01" <= character <= "\uff5e":  # full-width ASCII: punctuation of Chinese, Japanese
        return not character.isalnum()
    if character in "\u2025\u2026":  # the ellipsis; Chinese writes it twice
        return True
    # Free-standing Korean letters, which NFKC turns into parts of syllables.
    return "\u3131" <= character <= "\u318e" or "\uffa0" <= character <= "\uffdc"


def _normalize_character(character: str) -> str:
    if character == _SPACE_MARK:
        return "_"
    if character in _INVISIBLE:
        return ""
    if character in _SEPARATORS:
        return " "
    if unicodedata.category(character) == "Cc":
        return ""
    if _is_kept(character):
        return character
    normal = unicodedata.normalize("NFKC", character)
    # A free-standing accent (U+00B4 and its like) would become a space and an accent.
    if normal[0] == " " and len(normal) > 1:
        return unicodedata.normalize("NFC", character)
    return normal


def _spellings(character: str) -> Iterator[str]:
    """Yield every sequence that NFC composes to ``character``: base, then marks in any order,
    with any number of the first marks already composed."""
    decomposed = unicodedata.normalize("NFD", character)
    base, marks = decomposed[0], decomposed[1:]
    for order in itertools.permutations(marks):
        for composed in range(len(order) + 1):
            head = unicodedata.normalize("NFC", base + "".join(order[:composed]))
            yield head + "".join(order[composed:])


def _characters() -> Iterator[str]:
    for code in range(1, 0x110000):
        if not 0xD800 <= code <= 0xDFFF:
            yield chr(code)


@functools.cache
def rules() -> dict[str, str]:
    """Build the replacement of each text fragment; the longest matching fragment wins.

    Single characters follow NFKC, and decomposed sequences (a base and its marks, Korean
    letters) are composed as in NFC. Exceptions to NFKC: full-width punctuation, the ellipsis,
    free-standing Korean letters and accents are kept; control characters become a space
    or are removed; invisible characters are removed; U+2581 becomes an underscore.
    SentencePiece itself handles repeated and edge spaces (``remove_extra_whitespaces``).

    Returns:
        About 28,000 rules, 21,000 of them for Korean; compiled, they are 200 kB of a model.
    """
    table: dict[str, str] = {}
    for character in _characters():
        normal = _normalize_character(character)
        if normal != character:
            table[character] = normal
    for character in _characters():
        if len(unicodedata.normalize("NFD", character)) > 1:
            composed = unicodedata.normalize("NFC", character)
            for spelling in _spellings(character):
                if spelling != composed and unicodedata.normalize("NFC", spelling) == composed:
                    table[spelling] = table.get(composed, composed)
    # NFKC composes a half-width katakana letter and its sound mark into one character.
    for base, mark in itertools.product(map(chr, range(0xFF66, 0xFF9E)), "\uff9e\uff9f"):
        composed = unicodedata.normalize("NFKC", base + mark)
        if len(composed) == 1:
            table[base + mark] = composed
    return table


def normalizer(space_marks: bool = True) -> sentencepiece.SentencePieceNormalizer:
    """Compile the rules, for SentencePiece's trainer or to normalize text alone.

    Args:
        space_marks: Write U+2581 for each space and before the text, as the trainer needs.
    """
    return sentencepiece.SentencePieceNormalizer(
        norm_map=sorted(rules().items()),
        add_dummy_prefix=space_marks,
        escape_whitespaces=space_marks,
        remove_extra_whitespaces=True,
    )
