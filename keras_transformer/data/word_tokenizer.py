"""Word tokenizer: tokens separated by spaces, in Python and in the graph.

Text is neither normalized nor cut further: it must come as the tokens that the model knows, such
as words of a Moses tokenizer, BPE tokens of subword-nmt or characters with spaces between them.
A token outside the vocabulary has the unknown id, as have the names of the special tokens.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar

from keras_transformer.config import DataConfig
from keras_transformer.data.errors import TokenizerError
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""Names of the special tokens, by id."""

_FORMAT = 1
# A line feed ends a line of the file; the others could not be told from the spaces between tokens
# where a text is decoded.
_FORBIDDEN = re.compile(r"[ \t\n\v\f\r]")


class Words:
    """A list of words, a `LanguageTokenizer`.

    Its file is a line of JSON with the other arguments, then each word on a line of its own.

    Args:
        words: The words from id 4 on; no special token is among them.
        continuation: Ending that marks a word which the next one continues, such as ``@@`` of
            subword-nmt and fastBPE. `decode` joins such words; `encode` expects the marks in the
            text. "": no word has a mark.
        name: Name in error messages, such as the path.

    Raises:
        TokenizerError: There are no words; or one is empty, has a space in it, comes twice, or is
            a special token.
    """

    suffix: ClassVar[str] = ".words"
    """Ending of the file."""
    space_mark: ClassVar[str] = ""
    """Words have no mark of a space: U+2581 in a word stays."""

    def __init__(
        self, words: Iterable[str], continuation: str = "", name: str = "list of words"
    ) -> None:
        self._pieces = [*SPECIAL, *words]
        self.continuation = continuation
        """Ending of a word that the next one continues; "" if there is none."""
        self._ids = dict(zip(self._pieces, range(len(self._pieces)), strict=True))
        _check(self._pieces, self._ids, name)
        self._of_text = {word: self._ids[word] for word in self._pieces[len(SPECIAL) :]}
        self._texts = [self._text(number) for number in range(len(self._pieces))]

    def _text(self, number: int) -> str:
        """Return the text of an id, with the space that follows it."""
        piece = self._pieces[number]
        if number in (PAD, START, END):
            return ""
        if self.continuation and number != UNKNOWN and piece.endswith(self.continuation):
            return piece.removesuffix(self.continuation)
        return f"{piece} "

    @classmethod
    def learn(cls, lines: Iterable[str], config: DataConfig) -> Words:
        """Take the most frequent words of a text; among equally frequent ones, the first.

        Args:
            lines: The text, tokens separated by spaces.
            config: ``vocabulary_size`` is used, special tokens included.

        Raises:
            TokenizerError: The text is blank.
        """
        counts = Counter(chain.from_iterable(line.split() for line in lines))
        for name in SPECIAL:
            del counts[name]
        if not counts:
            raise TokenizerError(
                "training text: expected words to learn a vocabulary from, got none"
            )
        frequent = counts.most_common(config.vocabulary_size - len(SPECIAL))
        return cls(word for word, _ in frequent)

    @classmethod
    def read(cls, data: bytes, name: str) -> Words:
        """Read the bytes of a file.

        Args:
            data: The bytes.
            name: Name in error messages, such as the path.

        Raises:
            TokenizerError: The file is damaged.
        """
        try:
            head, *lines = data.decode("utf-8").split("\n")
            values = json.loads(head)
            if values["format"] != _FORMAT or len(lines) != values["words"] + 1 or lines[-1]:
                raise ValueError("other lines than the first one announces")
            continuation = str(values["continuation"])
        except (ValueError, TypeError, KeyError) as error:
            raise TokenizerError(
                f"{name}: expected a list of words, got {len(data)} other bytes (a damaged or "
                f"half-copied file?): {error}"
            ) from error
        return cls(lines[:-1], continuation, name)

    @property
    def serialized(self) -> bytes:
        """The bytes of the file."""
        words = self._pieces[len(SPECIAL) :]
        head = {"format": _FORMAT, "words": len(words), "continuation": self.continuation}
        lines = [json.dumps(head), *words]
        return "".join(f"{line}\n" for line in lines).encode()

    @property
    def size(self) -> int:
        """Vocabulary size, including special tokens."""
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end; none for a blank text."""
        ids = self._of_text
        return [[ids.get(word, UNKNOWN) for word in text.split()] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the words of each sequence, separated by spaces or joined by their marks.

        Padding, start and end are skipped.

        Raises:
            TokenizerError: An id is outside the vocabulary.
        """
        rows = [[int(token) for token in row] for row in ids]
        for token in chain.from_iterable(rows):
            if not 0 <= token < self.size:
                raise TokenizerError(f"ids: expected 0 to {self.size - 1}, got {token}")
        texts = self._texts
        return ["".join(texts[token] for token in row).removesuffix(" ") for row in rows]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the word of each id, with its mark."""
        return [self._pieces[int(token)] for token in ids]

    def join(self, pieces: Sequence[str]) -> str:
        """Return the text of words; those outside the vocabulary are unknown."""
        return self.decode([[self._ids.get(piece, UNKNOWN) for piece in pieces]])[0]

    def graph(self) -> Any:
        """Build the same tokenizer as TensorFlow ops, for an exported graph.

        Returns:
            A `graph_words.GraphWords`.
        """
        from keras_transformer.data.graph_words import GraphWords

        return GraphWords(self._pieces, self._texts, self._of_text)


def _check(pieces: Sequence[str], ids: dict[str, int], name: str) -> None:
    """Refuse an empty list, words that no file could hold, and those that come twice."""
    if len(pieces) == len(SPECIAL):
        raise TokenizerError(f"{name}: expected words, got none")
    for number, piece in enumerate(pieces):
        if ids[piece] != number:
            raise TokenizerError(
                f"{name}: expected different words, none of them {', '.join(SPECIAL)}; got "
                f"{piece!r} with the ids {number} and {ids[piece]}"
            )
        if not piece or _FORBIDDEN.search(piece):
            raise TokenizerError(
                f"{name}: expected words without spaces, got {piece!r} with the id {number}"
            )
    try:
        "".join(pieces).encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(f"{name}: expected words in Unicode, got {error}") from error
