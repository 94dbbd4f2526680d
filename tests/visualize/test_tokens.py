"""Labels of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN
from keras_transformer.visualize.tokens import is_separator, read_tokens


class Pieces:
    """A vocabulary as a list."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = ["<pad>", "<unk>", "<s>", "</s>", *pieces]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[number] for number in ids]


def test_marks_names_bytes_and_punctuation() -> None:
    side = cast(LanguageTokenizer, Pieces("▁dog", "s", "<0xE4>", "▁", "。", "</s>", "▁$5"))

    tokens = read_tokens(side, [START, 4, 5, 6, 7, 8, END, 9, 10, UNKNOWN, PAD])

    assert [token.label for token in tokens] == [
        *("[start]", "\u02cddog", "s", "[byte E4]", "\u02cd", "。", "[end]"),
        *("</s>", "\u02cd$5", "[unknown]", "[padding]"),
    ]
    assert [token.spoken for token in tokens[:6]] == ["start", "dog", "s", "byte E4", "space", "。"]
    separators = [token.spoken for token in tokens if is_separator(token)]
    assert separators == ["start", "。", "end", "unknown", "padding"]
