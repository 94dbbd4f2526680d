"""Word and token alignment, read from the cross-attention.

Shapes: B batch, H heads, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.plain_text import plain
from keras_transformer.special_tokens import END, PAD


@dataclass(frozen=True)
class Attention:
    """Attention of each token of a translation to each token of its source."""

    source: tuple[str, ...]
    """S subword pieces of the line, a space as U+2581; the end token last, unless
    ``data.source_end`` is false."""
    target: tuple[str, ...]
    """T subword pieces of the translation; the end token last, unless the limit came first."""
    weights: np.ndarray
    """(T, S) float32; each row sums to 1."""
    source_words: tuple[int, ...]
    """Index of the word that each of ``source_pieces`` belongs to; empty without words."""
    target_words: tuple[int, ...]
    """Index of the word that each of ``target_pieces`` belongs to; empty without words."""
    source_ends: bool = True
    """Whether the end token is the last of ``source``."""
    target_ends: bool = True
    """Whether the end token is the last of ``target``."""

    @property
    def source_pieces(self) -> tuple[str, ...]:
        """``source`` without the end token."""
        return self.source[: len(self.source) - self.source_ends]

    @property
    def target_pieces(self) -> tuple[str, ...]:
        """``target`` without the end token."""
        return self.target[: len(self.target) - self.target_ends]

    @property
    def links(self) -> list[tuple[int, int]]:
        """One (source, target) link for each word of the translation, by target.

        Each target word is linked to the source word whose pieces have the greatest attention
        from its pieces. Words are separated by spaces, numbered from 0, in the translation and
        in the line as the tokenizer reads it.
        """
        return links(self.weights, self.source_words, self.target_words)

    @property
    def piece_links(self) -> list[tuple[int, int]]:
        """One (source, target) link for each piece of the translation but the end token."""
        source, target = len(self.source_pieces), len(self.target_pieces)
        return links(self.weights, range(source), range(target))


def links(
    weights: np.ndarray, source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """Return one (source unit, target unit) link for each target unit, by target.

    Args:
        weights: (T, S) attention.
        source: The unit that each of the first columns belongs to, without gaps, ascending.
            Further columns are ignored: heads put unused weight on the end token.
        target: The unit that each of the first rows belongs to.
    """
    if not len(source) or not len(target):
        return []
    sums = np.zeros((max(target) + 1, max(source) + 1))
    np.add.at(sums, np.ix_(target, source), weights[: len(target), : len(source)])
    return [(int(row.argmax()), unit) for unit, row in enumerate(sums)]


def words_of_pieces(side: LanguageTokenizer, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the word of a text that each of its pieces belongs to, counted from 0.

    Words are separated by spaces. A piece belongs to the last word of the text up to it, so
    that pieces of any spelling (bytes, single spaces) are counted as in the detokenised text.
    The result is empty if that text is.
    """
    texts = [plain(text, side) for text in side.decode([ids[: end + 1] for end in range(len(ids))])]
    return tuple(text.count(" ") for text in texts) if texts and texts[-1] else ()


def attention_matrix(weights: Sequence[tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
    """Average the attention of the heads of the penultimate layer, or of the only one.

    Garg et al. (2019, "Jointly Learning to Align and Translate with Transformer Models") found
    this average closest to human alignments.

    Args:
        weights: For each decoder layer (B, H, T, S), from ``DecodingModel.forward``.
        labels: (B, T) int32, the predicted tokens, padded.

    Returns:
        (B, T, S) float32. The rows of real tokens sum to 1, those of padding to 0.
    """
    mean = tf.reduce_mean(weights[max(len(weights) - 2, 0)], axis=1)
    return mean * tf.cast(labels != PAD, tf.float32)[:, :, None]


def read_attention(
    source: np.ndarray, labels: np.ndarray, matrices: np.ndarray, tokenizer: Tokenizer
) -> Iterator[Attention]:
    """Yield the attention of each sentence of a batch, without padding and with its pieces.

    Args:
        source: (B, S) int32, padded.
        labels: (B, T) int32, the tokens of the translations, padded.
        matrices: (B, T, S) float32 of ``attention_matrix``.
        tokenizer: The tokenizer of both languages.

    Yields:
        The attention of each sentence.
    """
    for source_row, target_row, matrix in zip(source, labels, matrices, strict=True):
        source_ids, target_ids = (ids[ids != PAD].tolist() for ids in (source_row, target_row))
        source_ends, target_ends = (ids[-1:] == [END] for ids in (source_ids, target_ids))
        yield Attention(
            source=tuple(tokenizer.source.pieces(source_ids)),
            target=tuple(tokenizer.target.pieces(target_ids)),
            # A view would keep the whole batch in memory.
            weights=matrix[: len(target_ids), : len(source_ids)].copy(),
            source_words=words_of_pieces(tokenizer.source, _without_end(source_ids)),
            target_words=words_of_pieces(tokenizer.target, _without_end(target_ids)),
            source_ends=source_ends,
            target_ends=target_ends,
        )


def _without_end(ids: list[int]) -> list[int]:
    return ids[:-1] if ids[-1:] == [END] else ids
