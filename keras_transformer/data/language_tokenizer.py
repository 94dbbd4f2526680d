"""Interface of the tokenizer of one language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self


class LanguageTokenizer(Protocol):
    """Tokenizer of one language, with the special ids of `special_tokens`."""

    suffix: ClassVar[str]
    """Ending of its file, such as ``.model``."""
    space_mark: ClassVar[str]
    """Character that stands for a space wherever it is decoded; "": there is none."""

    @classmethod
    def read(cls, data: bytes, name: str) -> Self:
        """Read the bytes of its file.

        Args:
            data: The bytes.
            name: Name in error messages, such as the path.

        Raises:
            TokenizerError: The file is damaged, or has other special ids.
        """
        ...

    @property
    def serialized(self) -> bytes:
        """The bytes of its file; tokenizers with the same bytes are the same."""
        ...

    @property
    def size(self) -> int:
        """Vocabulary size, including special tokens."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end; none for a blank text."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each sequence; padding, start and end are skipped.

        Raises:
            TokenizerError: An id is outside the vocabulary.
        """
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the token of each id as text, no two alike."""
        ...

    def join(self, pieces: Sequence[str]) -> str:
        """Return the text of tokens; those outside the vocabulary are unknown."""
        ...

    def graph(self) -> GraphTokens:
        """Build the same tokenizer as TensorFlow ops, for an exported graph.

        Build it after TensorFlow is seeded: seeding may destroy what it refers to.
        """
        ...


class GraphTokens(Protocol):
    """Tokenizer as TensorFlow ops; its results agree with those of a `LanguageTokenizer`."""

    def tokenize(self, texts: Any) -> Any:
        """Return the ids of (B,) string as a ragged int32 tensor (B, None)."""
        ...

    def detokenize(self, ids: Any) -> Any:
        """Return the texts (B,) of a ragged int32 tensor (B, None)."""
        ...

    def id_to_string(self, ids: Any) -> Any:
        """Return the token of each id, a string tensor of the same shape."""
        ...
