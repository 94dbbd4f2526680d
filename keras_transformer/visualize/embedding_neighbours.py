"""Neighbours of tokens among the embeddings, by cosine.

Shapes: V vocabulary, D model width, N tokens asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.inference.translation import TranslationError
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.special_tokens import END
from keras_transformer.visualize.drawing import drawing_module
from keras_transformer.visualize.tokens import Token, read_tokens

if TYPE_CHECKING:
    from keras_transformer.visualize.heatmaps import Picture

FREQUENT = 12
"""Number of tokens if no words are given."""


class Neighbour(NamedTuple):
    """A token and its cosine similarity to another one."""

    token: Token
    cosine: float


@dataclass(frozen=True)
class Neighbours:
    """The nearest tokens of some tokens."""

    tokens: list[Token]
    nearest: list[list[Neighbour]]
    """For each token its neighbours, nearest first."""
    side: str
    """"source" or "target"; "source and target" where both share one matrix."""

    def figure(self) -> Picture:
        """Draw a row for each token."""
        picture: Picture = drawing_module("neighbours_figure").neighbours_figure(self)
        return picture

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(token.label)}</th>"
            + "".join(
                f"<td>{escape(neighbour.token.label)} <small>{neighbour.cosine:.2f}</small></td>"
                for neighbour in nearest
            )
            + "</tr>"
            for token, nearest in zip(self.tokens, self.nearest, strict=True)
        )
        caption = f"Nearest embeddings by cosine, {self.side}"
        return f"<table><caption>{caption}</caption>{rows}</table>"


def neighbours(
    translator: Translator,
    words: Sequence[str] | None = None,
    k: int = 6,
    side: str = "source",
) -> Neighbours:
    """Return the tokens with the most similar embeddings, by cosine.

    Args:
        translator: The trained model.
        words: Words of the language; each token of a word is looked up. None: frequent whole
            words.
        k: Number of neighbours of each token.
        side: "source" or "target": which embedding.

    Raises:
        TranslationError: A word is blank.
    """
    tokenizer: LanguageTokenizer = getattr(translator.tokenizer, side)
    embedding = getattr(transformer, f"{side}_embedding")(translator.model)
    matrix = np.asarray(embedding.matrix, np.float32)  # (V, D)
    if words is None:
        ids = frequent_tokens(tokenizer, FREQUENT)
    else:
        for word in words:
            if not word.strip():
                raise TranslationError(f"words: expected words, got {word!r}")
        encoded = tokenizer.encode(list(words))
        ids = list(dict.fromkeys(number for row in encoded for number in row))
    unit = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    cosines = unit[ids] @ unit.T  # (N, V)
    cosines[:, : END + 1] = -2.0  # special tokens are no words
    cosines[np.arange(len(ids)), ids] = -2.0
    nearest = []
    for row in cosines:
        best = np.argsort(-row, kind="stable")[:k].tolist()
        pairs = zip(read_tokens(tokenizer, best), row[best].tolist(), strict=True)
        nearest.append([Neighbour(token, cosine) for token, cosine in pairs])
    shared = transformer.source_embedding(translator.model) is transformer.target_embedding(
        translator.model
    )
    tokens = list(read_tokens(tokenizer, ids))
    return Neighbours(tokens, nearest, "source and target" if shared else side)


def frequent_tokens(tokenizer: LanguageTokenizer, count: int) -> list[int]:
    """Return ids of frequent tokens with two letters or more, or of any if there are no such.

    Vocabularies are ordered roughly by frequency: unigram models by probability, BPE by the order
    of the merges.
    """
    ids = range(END + 1, tokenizer.size)
    tokens = read_tokens(tokenizer, ids)
    words = [
        number
        for number, token in zip(ids, tokens, strict=True)
        if token.kind == "text" and len(token.spoken) > 1 and token.spoken.isalpha()
    ]
    return (words or list(ids))[:count]  # a model of characters has no words
