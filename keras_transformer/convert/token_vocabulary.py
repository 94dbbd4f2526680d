"""Vocabularies of other systems as lists of tokens, cut by SentencePiece models or outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.convert import bpe_codes, foreign_tokenizer
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_tokenizer import CONTINUATION, ForeignTokenizer
from keras_transformer.convert.readers.limits import read_bytes
from keras_transformer.convert.vocabulary_rows import NONE

if TYPE_CHECKING:
    from keras_transformer.data.foreign_sentencepiece import SpecialIds

SPACE = "\u2581"
"""SentencePiece's sign for a space."""
JOINER = "\uffed"
"""Joiner of OpenNMT's tokenizer."""


@dataclass(frozen=True)
class TokenList:
    """The vocabulary of one side in the other system.

    Args:
        tokens: The tokens by row, special ones included.
        special: Rows of the special tokens; start is the row of the decoder's first input.
        file: Its file, for messages.
    """

    tokens: Sequence[str]
    special: SpecialIds
    file: object

    def check_size(self, size: int, tensor: str) -> None:
        """Check that there are as many tokens as a matrix has rows.

        Raises:
            ConvertError: There is another number.
        """
        if len(self.tokens) != size:
            raise ConvertError(
                f"{self.file}: expected {size} tokens, as many as {tensor} has rows, got "
                f"{len(self.tokens)} (the vocabulary of another model?)"
            )

    def ids(self) -> dict[str, int]:
        """Return the row of each token.

        Raises:
            ConvertError: A token is there twice.
        """
        ids: dict[str, int] = {}
        for row, token in enumerate(self.tokens):
            if ids.setdefault(token, row) != row:
                raise ConvertError(
                    f"{self.file}: expected each token once, got {token!r} with the ids "
                    f"{ids[token]} and {row}"
                )
        return ids


def token_tokenizer(
    source: TokenList,
    target: TokenList,
    models: Sequence[Path] = (),
    codes: Path | None = None,
    split_unknown: bool = False,
) -> ForeignTokenizer:
    """Return the tokenizer of a model's vocabularies.

    Args:
        source: The vocabulary of the source.
        target: That of the target. Equal ones are a joint vocabulary.
        models: SentencePiece models that cut the text: one, or that of the source and that of the
            target. None: tokens in, tokens out.
        codes: Byte-pair codes that cut words, where there are no such models.
        split_unknown: Whether tokens of the codes outside the vocabulary are split again.

    Raises:
        ConvertError: A vocabulary has a token twice, or is not that of the SentencePiece model.
        TokenizerError: A model is damaged.
    """
    left = foreign_tokenizer.Vocabulary(source.ids(), source.special)
    right = foreign_tokenizer.Vocabulary(target.ids(), target.special)
    right = left if right == left else right
    if not models and codes is not None and _marked(source.tokens, target.tokens):
        cut = _cut_by_codes(left, right, codes, split_unknown)
        if cut is not None:
            return cut
    if not models:
        found = foreign_tokenizer.from_words(left, right)
        return dataclasses.replace(found, notes=[_tokens_note(source.tokens, target.tokens)])
    data = [read_bytes(path) for path in models]
    found = foreign_tokenizer.from_sentencepiece((data[0], data[-1]), left, right)
    for rows, vocabulary in ((found.source, source), (found.target, target)):
        lacking = int((rows.scored == NONE).sum())
        if lacking > len(vocabulary.tokens) // 2:
            raise ConvertError(
                f"{vocabulary.file}: expected the pieces of the SentencePiece model beside it, got "
                f"a vocabulary without {lacking:,} of them; remove the model to convert with "
                "tokens in and out"
            )
    names = ", ".join(path.name for path in models)
    return dataclasses.replace(found, notes=[*found.notes, f"text: cut by {names}"])


def _cut_by_codes(
    source: foreign_tokenizer.Vocabulary,
    target: foreign_tokenizer.Vocabulary,
    path: Path,
    split_unknown: bool,
) -> ForeignTokenizer | None:
    """Return a tokenizer that cuts words as byte-pair codes do; None if words differ."""
    codes = bpe_codes.read_codes(path)
    sides = (source,) if source is target else (source, target)
    made = [bpe_codes.codes_model(codes, each.ids, each.special, split_unknown) for each in sides]
    compared = 0
    for model, each in zip(made, sides, strict=True):
        differing, words = bpe_codes.differing_words(codes, model, each.ids, split_unknown)
        if differing:
            return None
        compared += words
    found = foreign_tokenizer.from_rewritten((made[0], made[-1]), source, target)
    note = (
        f"text: words separated by spaces are cut by {path.name} ({compared:,} words were cut as "
        "the codes do); separate the words as for the training, by Moses' tokenizer if that is "
        "what the system used, and join them after the translation"
    )
    return dataclasses.replace(found, notes=[note])


def _marked(*sides: Sequence[str]) -> bool:
    """Return whether a vocabulary marks the tokens that the next one continues."""
    return all(any(token.endswith(CONTINUATION) for token in side) for side in sides)


def find_codes(folder: Path) -> Path | None:
    """Return the file of byte-pair codes in a folder, if there is exactly one."""
    names = ("code", "codes", "bpecodes", "bpe.codes", "codes.txt", "merges.txt")
    found = [folder / name for name in names if (folder / name).is_file()]
    return found[0] if len(found) == 1 else None


def find_sentencepiece(folder: Path, source: str = "", target: str = "") -> list[Path]:
    """Return the SentencePiece models in a folder: one, those of two languages, or none.

    Args:
        folder: The folder.
        source: Source language, which a name may contain.
        target: Target language.
    """
    found = sorted(path for ending in ("*.model", "*.spm") for path in folder.glob(ending))
    if len(found) == 1:
        return found
    sides = [_named(found, names) for names in (("source", "src", source), ("target", target))]
    return [path for path in sides if path is not None] if all(sides) else []


def _named(paths: Sequence[Path], names: Sequence[str]) -> Path | None:
    """Return the path whose name has one of the words."""
    for name in filter(None, names):
        for path in paths:
            if name in path.name.replace("-", ".").replace("_", ".").split("."):
                return path
    return None


def _tokens_note(*sides: Sequence[str]) -> str:
    tokens = {token for side in sides for token in side}
    if any(token.endswith(CONTINUATION) for token in tokens):
        form = f"BPE tokens ({CONTINUATION} marks those that the next one continues; they are "
        form += "joined in the output)"
    elif any(token.startswith(SPACE) for token in tokens):
        form = "SentencePiece's pieces"
    elif any(JOINER in token for token in tokens):
        form = f"tokens of OpenNMT's tokenizer (with its joiner {JOINER})"
    else:
        form = "the tokens of its vocabulary"
    return (
        f"text: the model reads and writes {form}, separated by spaces: cut the source as for "
        "its training, and join the output accordingly"
    )
